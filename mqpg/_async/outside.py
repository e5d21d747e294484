"""Consumption with effects anywhere (protocol C3): leased, acknowledged after the effect, at least once.

The lease is extended while the handler works, so its length only says how soon others take over from a
process that died. A message that fails goes to retry, the others of its delivery are acknowledged. With
ack='receive' (QoS 0) a message is acknowledged before it is handled: at most once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mqpg._async._io import Event
from mqpg._async.calling import Calls
from mqpg._async.client import AsyncClient
from mqpg._async.lanes import Lanes
from mqpg._async.leases import Claim, Lease, kept
from mqpg._async.settling import give_up
from mqpg._async.trying import Tried
from mqpg._consumption import Options
from mqpg._failures import Failure
from mqpg.errors import ReceiptError
from mqpg.message import Message

__all__ = ["EffectOutside"]

logger = logging.getLogger("mqpg")


class EffectOutside:
    """Rounds of a consumer whose effects are in no transaction."""

    def __init__(self, options: Options, calls: Calls) -> None:
        self._options = options
        self._calls = calls
        self._lanes = Lanes(options)
        self._lease = Lease(options.lease)

    async def close(self) -> None:
        """Nothing is kept open."""

    async def step(self, mq: AsyncClient, worker: int = 0, stop: Event | None = None) -> int:
        """One delivery; how many messages it had. Once `stop` is set, what was not begun is given back."""
        await self._lanes.ready(mq)
        await self._calls.inbox.refuse(mq)
        messages = await self._lanes.receive(mq, worker)
        if not messages:
            return 0
        receipt = str(messages[0].receipt)
        if self._options.ack == "receive":
            await mq.ack(receipt)
            await self._handle_acked(mq, messages)
            return len(messages)
        async with kept(mq, receipt, self._options.lease, await self._lease.seconds(mq)) as claim:
            try:
                if self._options.batch:
                    await self._handle_batch(mq, claim, messages)
                else:
                    await self._handle(mq, claim, messages, stop)
            except ReceiptError as error:
                # The lease ended and somebody else has taken over: what was done is done again there.
                logger.warning("%s/%s: %s", self._options.group, self._options.topic, error)
        return len(messages)

    async def _handle(self, mq: AsyncClient, claim: Claim, messages: Sequence[Message], stop: Event | None) -> None:
        tried, each = Tried(), self._options.ack == "each"
        done: Message | None = None  # not acknowledged yet
        for message in messages:
            if claim.lost:
                return
            if message is not messages[0] and stop is not None and stop.is_set():
                await self._settle(mq, claim, done)
                await mq.release(claim.receipt)
                return
            if tried.holds(message):
                # Given back with the failed message.
                continue
            failure = await self._try(mq, [message])
            if failure is None:
                done = message
                if each:
                    await self._settle(mq, claim, done)
                    done = None
                continue
            if message.queue_id >= 0:
                tried.policy = await mq._on_failure(self._options.group, self._options.topic)
            tried.failures.append(failure)
            await give_up(mq, claim.receipt, [failure])
        await self._settle(mq, claim, done)

    async def _settle(self, mq: AsyncClient, claim: Claim, done: Message | None) -> None:
        """Acknowledge everything up to the last one that was handled."""
        if done is not None:
            await mq.ack(claim.receipt, done.queue_offset)

    async def _handle_batch(self, mq: AsyncClient, claim: Claim, messages: Sequence[Message]) -> None:
        failure = await self._try(mq, messages)
        if failure is None:
            await mq.ack(claim.receipt)
        else:
            # Which one it was cannot be told, and trying singly would repeat effects at once.
            await give_up(mq, claim.receipt, [Failure(message, failure.error) for message in messages])

    async def _handle_acked(self, mq: AsyncClient, messages: Sequence[Message]) -> None:
        for group in [messages] if self._options.batch else [[message] for message in messages]:
            failure = await self._try(mq, group)
            if failure is not None:
                logger.warning("%s/%s: message %d is lost, ack='receive': %s", self._options.group,
                               self._options.topic, failure.message.message_id, failure.reason)  # fmt: skip

    async def _try(self, mq: AsyncClient, messages: Sequence[Message]) -> Failure | None:
        try:
            for request, payload in await self._calls(messages):
                await mq.reply(request, payload)
        except Exception as error:
            return Failure(messages[0], error)
        return None
