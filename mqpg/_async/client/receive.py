"""Receiving deliveries, and acknowledging or returning them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from mqpg._async.client.connection import BaseClient
from mqpg._async.client.execute import Caller
from mqpg._async.client.send import listed
from mqpg._async.client.wakeup import TopicWaiter
from mqpg._sql import DELIVERY, function
from mqpg.errors import InvalidArgument
from mqpg.message import Interval, Message, interval

__all__ = ["Receive"]

_RECEIVE = function(
    "receive",
    "consumer_group text, topic text, max_messages int, lease interval, consumer text, queue_id int",
    columns=DELIVERY,
)
_FETCH = function("fetch", "topic text, queue_id int, from_offset bigint, max_messages int", columns=DELIVERY)
_ACK = function("ack", "receipt text, through bigint")
_NACK = function("nack", "receipt text, message_ids bigint[], reason text, delay interval, final boolean")
_EXTEND = function("extend", "receipt text, lease interval")
_RELEASE = function("release", "receipt text")


class Receive(BaseClient):
    """Calls of a consumer."""

    async def receive(
        self,
        consumer_group: str,
        topic: str,
        max_messages: int = 100,
        lease: Interval = 30.0,
        *,
        consumer: str | None = None,
        queue_id: int | None = None,
        wait: float = 0.0,
        conn: Caller | None = None,
    ) -> list[Message]:
        """Claim messages of one queue, or of the retry lane, under one receipt.

        With `conn` the claim lives as long as the caller's transaction (protocol C1): it is given
        back when that transaction rolls back. Without `conn` it lives until the lease ends
        (protocols C2 and C3).

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            max_messages: How many messages to claim at most, 1 to 10000.
            lease: How long the messages stay with this consumer without an acknowledgement, in
                seconds where it is a number; 30 by default.
            consumer: The consumer's name. Modes "pinned" and "broadcast" need one. None: no name.
            queue_id: Only this queue; -1 is the retry lane. None: the queue that waited longest.
            wait: How many seconds to wait for messages where there are none. The appender wakes the
                call, which does not poll. 0 returns at once.
            conn: A psycopg or SQLAlchemy connection, or a Session, whose transaction the call
                joins. It cannot wait, because it would not see what becomes visible meanwhile.
                None: the call commits at once.

        Returns:
            The messages, in offset order; an empty list where there are none.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            InvalidArgument: An argument is out of range, or `wait` and `conn` are both given.
            MissingBody: A message's body is gone from the log, which is reported and never skipped.
            SerializationFailure: The transaction of `conn` lost a race and has to be repeated.
        """
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "max_messages": max_messages,
            "lease": interval(lease),
            "consumer": consumer,
            "queue_id": queue_id,
        }
        if wait == 0:
            return _messages(await self._rows(_RECEIVE, values, conn, repeat=True))
        if not _is_positive(wait):
            raise InvalidArgument(f"wait must be a number of seconds, 0 or more, not {wait!r}")
        if conn is not None:
            raise InvalidArgument("wait and conn cannot be given together: waiting would hold your transaction open")
        deadline = time.monotonic() + wait
        with TopicWaiter(self, topic, consumer_group, consumer) as waiter:
            while not (rows := await self._rows(_RECEIVE, values, repeat=True)):
                if (left := deadline - time.monotonic()) <= 0:
                    break
                await waiter.wait(seconds=left)
        return _messages(rows)

    async def fetch(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        max_messages: int = 100,
        *,
        conn: Caller | None = None,
    ) -> list[Message]:
        """Read a queue from an offset, without a claim or a receipt (protocol C2).

        Args:
            topic: The topic's name.
            queue_id: The queue, 0 to the number of queues - 1.
            from_offset: The first offset to read.
            max_messages: How many messages to read at most, 1 to 10000.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            The messages, in offset order; an empty list at the end of the queue.

        Raises:
            UnknownTopic: There is no such topic.
            OffsetOutOfRange: The offset is below the oldest one that is kept, or beyond the queue's
                next one.
            MissingBody: A message's body is gone from the log.
        """
        values = {"topic": topic, "queue_id": queue_id, "from_offset": from_offset, "max_messages": max_messages}
        return _messages(await self._rows(_FETCH, values, conn, repeat=True))

    async def ack(self, receipt: str, through: int | None = None, *, conn: Caller | None = None) -> None:
        """Acknowledge a delivery, or the part of it up to an offset.

        Args:
            receipt: The receipt of the delivery's messages.
            through: The last offset that is acknowledged; the rest stays claimed. None: the whole
                delivery.
            conn: The caller's transaction, for an effect and its acknowledgement in one commit
                (protocol C1). None: the call commits at once.

        Raises:
            MalformedReceipt: The text is no receipt of this broker.
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: `through` is outside the delivery.
        """
        await self._rows(_ACK, {"receipt": receipt, "through": through}, conn, repeat=True)

    async def nack(
        self,
        receipt: str,
        message_ids: Sequence[int],
        reason: str | None = None,
        delay: Interval | None = None,
        final: bool = False,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Send messages of a delivery to the retry lane, or to the dead letters.

        The rest stays claimed.

        Args:
            receipt: The receipt of the delivery.
            message_ids: The messages that failed.
            reason: Why they failed; shown with the dead letter and by `trace`. None: no reason.
            delay: How long until the next attempt. None: the subscription's back-off.
            final: Make them dead letters at once, whatever attempts are left.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            MalformedReceipt: The text is no receipt of this broker.
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: An id is not in the delivery, or `delay` is out of range.
        """
        values = {
            "receipt": receipt,
            "message_ids": listed(message_ids, "message_ids"),
            "reason": reason,
            "delay": interval(delay),
            "final": final,
        }
        await self._rows(_NACK, values, conn)

    async def extend(self, receipt: str, lease: Interval, *, conn: Caller | None = None) -> None:
        """Make a delivery's lease end later.

        Args:
            receipt: The receipt of the delivery.
            lease: How long the lease lasts from now, in seconds where it is a number.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            MalformedReceipt: The text is no receipt of this broker.
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: The lease is out of range.
        """
        await self._rows(_EXTEND, {"receipt": receipt, "lease": interval(lease)}, conn, repeat=True)

    async def release(self, receipt: str, *, conn: Caller | None = None) -> None:
        """Give a delivery back, so that it may be received again at once. No attempt is counted.

        Args:
            receipt: The receipt of the delivery, which is spent afterwards.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            MalformedReceipt: The text is no receipt of this broker.
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
        """
        await self._rows(_RELEASE, {"receipt": receipt}, conn, repeat=True)


def _messages(rows: Sequence[Sequence[Any]]) -> list[Message]:
    return [Message.from_row(tuple(row)) for row in rows]


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and value > 0
