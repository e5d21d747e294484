"""Consumption with effects anywhere: leased, at least once (protocol C3).

The lease is extended while the handler works, so its length only says how soon another consumer
takes over from a process that died. A message that fails is nacked, and the others of its delivery
are acknowledged. With ack='receive' (QoS 0) a message is acknowledged before it is handled: at most
once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext, suppress

from mqpg._async._acompat import Event, cancellations, is_cancelled
from mqpg._async.client.client import AsyncClient
from mqpg._async.consumer.acknowledge import nack_failures
from mqpg._async.consumer.assignment import QueueAssignment
from mqpg._async.consumer.attempts import DeliveryResult
from mqpg._async.consumer.call_handler import HandlerInvoker
from mqpg._async.consumer.lease import Lease
from mqpg._async.consumer.relay_inbox import RelayInbox
from mqpg.connection.lease_extender import HeldLease
from mqpg.handlers.failures import Failure, decisive, ends_process
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.errors import Error, ReceiptError
from mqpg.values.messages import Message

__all__ = ["External"]

logger = logging.getLogger("mqpg")


class External:
    """Iterations of a consumer whose effects are in no transaction."""

    def __init__(self, options: ConsumerOptions, invoke: HandlerInvoker) -> None:
        self._options = options
        self._invoke = invoke
        self._inbox = RelayInbox(options)
        self._assignment = QueueAssignment(options)
        self._lease = Lease(options.lease, f"the handler of {options.group}/{options.topic}")

    async def close(self) -> None:
        """Do nothing, because no connection is open."""

    async def finish(self, mq: AsyncClient, worker: int) -> None:
        """Acknowledge the last delivery of a worker that makes no further step."""
        await self._assignment.ack_now(mq, worker)

    async def step(self, mq: AsyncClient, worker: int | None = None, stop: Event | None = None) -> int:
        """Handle one delivery. Returns how many messages it had.

        Once `stop` is set, messages that were not begun are given back. With `stop` a delivery that
        is done is acknowledged by the next step, or by `finish`.
        """
        await self._assignment.subscribe(mq)
        await self._assignment.note_journal(mq)
        await self._inbox.refuse(mq)
        messages = await self._assignment.receive(mq, worker)
        if not messages:
            return 0
        receipt = str(messages[0].receipt)
        if self._options.ack == "receive":
            await mq.ack_delivery(receipt)
            await self._handle_acknowledged(mq, messages)
            return len(messages)
        async with self._lease.extended(mq, receipt) as claimed:
            try:
                if self._options.batch:
                    done = await self._handle_batch(mq, claimed, messages)
                else:
                    done = await self._handle_each(mq, claimed, messages, stop)
                if done is not None and stop is not None:
                    self._assignment.ack_later(worker, receipt)
                else:
                    await self._ack_through(mq, claimed, done)
            except ReceiptError as error:
                # The lease ended and another consumer has taken over, which handles these messages
                # again.
                logger.warning("%s/%s: %s", self._options.group, self._options.topic, error)
        return len(messages)

    async def _handle_each(
        self, mq: AsyncClient, claimed: HeldLease, messages: Sequence[Message], stop: Event | None
    ) -> Message | None:
        """Handle messages one by one.

        Returns the last one that was handled, where it and what else is left of the delivery is not
        acknowledged yet.
        """
        result, each = DeliveryResult(), self._options.ack == "each"
        done: list[Message] = []  # not acknowledged yet
        for message in messages:
            if claimed.lost:
                return None
            if message is not messages[0] and stop is not None and stop.is_set():
                await self._ack_done(mq, claimed, done, result)
                await mq.release(claimed.receipt)
                return None
            if result.blocks(message):
                # It was given back together with the failed message.
                result.waiting.append(message)
                continue
            failure = await self._attempt(mq, [message])
            if failure is None:
                done.append(message)
                if each and (stop is None or message is not messages[-1]):
                    await self._ack_done(mq, claimed, done, result)
                    done = []
                continue
            if message.queue_id >= 0:
                result.on_failure = await mq.queries.on_failure(self._options.group, self._options.topic)
            result.failures.append(failure)
            if ends_process(failure.error):
                with suppress(Error):
                    await nack_failures(mq, claimed.receipt, [failure])
                    await self._ack_done(mq, claimed, done, result)
                    await mq.release(claimed.receipt)
                raise failure.error
            await nack_failures(mq, claimed.receipt, [failure])
        if result.waiting:
            await self._ack_done(mq, claimed, done, result)
            return None
        return done[-1] if done else None

    async def _ack_done(
        self, mq: AsyncClient, claimed: HeldLease, done: Sequence[Message], result: DeliveryResult
    ) -> None:
        """Acknowledge these messages, and never one that waits.

        If the subscription was altered just before the nack, what waits was not given back and
        is still claimed. It comes again when the lease ends.
        """
        if result.waiting:
            await mq.ack(done)
        elif done:
            await self._ack_through(mq, claimed, done[-1])

    async def _ack_through(self, mq: AsyncClient, claimed: HeldLease, done: Message | None) -> None:
        """Acknowledge everything up to the last message that was handled."""
        if done is not None:
            await mq.ack_delivery(claimed.receipt, done.queue_offset)

    async def _handle_batch(self, mq: AsyncClient, claimed: HeldLease, messages: Sequence[Message]) -> Message | None:
        failure = await self._attempt(mq, messages)
        if failure is None:
            return messages[-1]
        # The failure does not show which message caused it, and trying them singly would repeat
        # effects at once.
        with suppress(Error) if ends_process(failure.error) else nullcontext():
            await nack_failures(mq, claimed.receipt, [Failure(message, failure.error) for message in messages])
        _end_process(failure)
        return None

    async def _handle_acknowledged(self, mq: AsyncClient, messages: Sequence[Message]) -> None:
        for group in [messages] if self._options.batch else [[message] for message in messages]:
            failure = await self._attempt(mq, group)
            if failure is not None:
                logger.warning("%s/%s: message %d is lost, ack='receive': %s", self._options.group,
                               self._options.topic, failure.message.message_id, failure.reason)  # fmt: skip
                _end_process(failure)

    async def _attempt(self, mq: AsyncClient, messages: Sequence[Message]) -> Failure | None:
        before = cancellations()
        try:
            for request, payload in await self._invoke(messages):
                await mq.reply(request, payload)
        except BaseException as error:
            if is_cancelled(before):
                raise
            return Failure(messages[0], decisive(error))
        return None


def _end_process(failure: Failure) -> None:
    """Raise what a handler raised to end the process, once its attempt is counted."""
    if ends_process(failure.error):
        raise failure.error
