# Generated from mqpg/_async/outside.py by tools/async_to_sync.py: change that file.
"""Consumption with effects anywhere (protocol C3): leased, acknowledged after the effect, at least once.

The lease is extended while the handler works, so its length only says how soon others take over from a
process that died. A message that fails goes to retry, the others of its delivery are acknowledged. With
ack='receive' (QoS 0) a message is acknowledged before it is handled: at most once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mqpg._consumption import Options
from mqpg._failures import Failure
from mqpg._sync._io import Event
from mqpg._sync.calling import Calls
from mqpg._sync.client import Client
from mqpg._sync.lanes import Lanes
from mqpg._sync.leases import Claim, Lease, kept
from mqpg._sync.settling import give_up
from mqpg._sync.trying import Tried
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

    def close(self) -> None:
        """Nothing is kept open."""

    def step(self, mq: Client, worker: int = 0, stop: Event | None = None) -> int:
        """One delivery; how many messages it had. Once `stop` is set, what was not begun is given back."""
        self._lanes.ready(mq)
        self._calls.inbox.refuse(mq)
        messages = self._lanes.receive(mq, worker)
        if not messages:
            return 0
        receipt = str(messages[0].receipt)
        if self._options.ack == "receive":
            mq.ack(receipt)
            self._handle_acked(mq, messages)
            return len(messages)
        with kept(mq, receipt, self._options.lease, self._lease.seconds(mq)) as claim:
            try:
                if self._options.batch:
                    self._handle_batch(mq, claim, messages)
                else:
                    self._handle(mq, claim, messages, stop)
            except ReceiptError as error:
                # The lease ended and somebody else has taken over: what was done is done again there.
                logger.warning("%s/%s: %s", self._options.group, self._options.topic, error)
        return len(messages)

    def _handle(self, mq: Client, claim: Claim, messages: Sequence[Message], stop: Event | None) -> None:
        tried, each = Tried(), self._options.ack == "each"
        done: Message | None = None  # not acknowledged yet
        for message in messages:
            if claim.lost:
                return
            if message is not messages[0] and stop is not None and stop.is_set():
                self._settle(mq, claim, done)
                mq.release(claim.receipt)
                return
            if tried.holds(message):
                # Given back with the failed message.
                continue
            failure = self._try(mq, [message])
            if failure is None:
                done = message
                if each:
                    self._settle(mq, claim, done)
                    done = None
                continue
            if message.queue_id >= 0:
                tried.policy = mq._on_failure(self._options.group, self._options.topic)
            tried.failures.append(failure)
            give_up(mq, claim.receipt, [failure])
        self._settle(mq, claim, done)

    def _settle(self, mq: Client, claim: Claim, done: Message | None) -> None:
        """Acknowledge everything up to the last one that was handled."""
        if done is not None:
            mq.ack(claim.receipt, done.queue_offset)

    def _handle_batch(self, mq: Client, claim: Claim, messages: Sequence[Message]) -> None:
        failure = self._try(mq, messages)
        if failure is None:
            mq.ack(claim.receipt)
        else:
            # Which one it was cannot be told, and trying singly would repeat effects at once.
            give_up(mq, claim.receipt, [Failure(message, failure.error) for message in messages])

    def _handle_acked(self, mq: Client, messages: Sequence[Message]) -> None:
        for group in [messages] if self._options.batch else [[message] for message in messages]:
            failure = self._try(mq, group)
            if failure is not None:
                logger.warning("%s/%s: message %d is lost, ack='receive': %s", self._options.group,
                               self._options.topic, failure.message.message_id, failure.reason)  # fmt: skip

    def _try(self, mq: Client, messages: Sequence[Message]) -> Failure | None:
        try:
            for request, payload in self._calls(messages):
                mq.reply(request, payload)
        except Exception as error:
            return Failure(messages[0], error)
        return None
