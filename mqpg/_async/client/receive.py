"""Receiving deliveries, and acknowledging or returning their messages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from mqpg._async.client.connection import BaseClient
from mqpg._async.client.delivery import AsyncDelivery
from mqpg._async.client.execute import Caller
from mqpg._async.client.wakeup import TopicWaiter
from mqpg.connection.statements import DELIVERY, function
from mqpg.tracing import receiving, settling
from mqpg.values.arguments import interval, seconds
from mqpg.values.errors import InvalidArgument
from mqpg.values.messages import Interval, Message

__all__ = ["Receive"]

_RECEIVE = function(
    "receive",
    "consumer_group text, topic text, max_messages int, lease interval, consumer text, queue_id int, ack text",
    columns=DELIVERY,
)
_FETCH = function(
    "fetch", "topic text, queue_id int, from_offset bigint, max_messages int", columns=DELIVERY, reads=True
)
_ACK = function("ack", "receipt text, through bigint, offsets bigint[]")
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
        ack: str | None = None,
        conn: Caller | None = None,
    ) -> AsyncDelivery:
        """Claim messages of one queue, or of the retry lane, as one delivery.

        Acknowledge each message by `ack` when it is done. What is not acknowledged is delivered
        again. `AsyncDelivery.ack` acknowledges the whole delivery in one call.

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
            ack: The receipt of a delivery of this subscription, which the call acknowledges first:
                one round trip and one commit instead of two. It is acknowledged also where there
                is no message. None: nothing is acknowledged.
            conn: A psycopg or SQLAlchemy connection, or a Session, whose transaction the call
                joins. It cannot wait, because it would not see what becomes visible meanwhile.
                None: the call commits at once.

        Returns:
            The delivery: a sequence of messages in offset order, empty if there are none.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            InvalidArgument: An argument is out of range, `ack` is of another subscription, or
                `wait` and `conn` are both given.
            MalformedReceipt: `ack` is no receipt of this broker.
            SpentReceipt: The delivery of `ack` was released or given back meanwhile.
            StaleReceipt: Another consumer has received the messages of `ack` since. With these
                errors nothing was claimed.
            MissingBody: A message's body is gone from the log, which is reported and never skipped.
            SerializationFailure: The transaction of `conn` lost a race and has to be repeated.
        """
        values = _RECEIVE.values(consumer_group, topic, max_messages, lease, consumer, queue_id, ack)
        limit = seconds(wait, "wait")
        if limit == 0:
            # Without _claim(), so that there is one frame less between a consumer and SQL.
            with receiving(consumer_group, topic) as span:
                messages = _messages(await self._rows(_RECEIVE, values, conn, repeat=True))
                span.received(messages)
            return AsyncDelivery(self, messages, conn)
        if conn is not None:
            raise InvalidArgument("wait and conn cannot be given together: waiting would hold your transaction open")
        deadline = time.monotonic() + limit
        with TopicWaiter(self, topic, consumer_group, consumer) as waiter:
            while not (messages := await self._claim(values)):
                if (left := deadline - time.monotonic()) <= 0:
                    break
                values["ack"] = None  # the first call has done that
                await waiter.wait(seconds=left)
        return AsyncDelivery(self, messages, None)

    async def _claim(self, values: Mapping[str, Any]) -> list[Message]:
        """Receive once, without waiting."""
        with receiving(values["consumer_group"], values["topic"]) as span:
            messages = _messages(await self._rows(_RECEIVE, values, repeat=True))
            span.received(messages)
        return messages

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
        values = _FETCH.values(topic, queue_id, from_offset, max_messages)
        return _messages(await self._rows(_FETCH, values, conn, repeat=True))

    async def ack(self, message: Message | Sequence[Message], *, conn: Caller | None = None) -> None:
        """Acknowledge one message of a delivery, or several in one commit.

        The other messages of the delivery stay claimed, also those before this one. So the order
        does not matter, and a program that crashes loses nothing: what it has not acknowledged is
        delivered again.

        Args:
            message: The message, or a list of messages of one delivery. One that was acknowledged
                or returned before changes nothing.
            conn: The caller's transaction, for an effect and its acknowledgement in one commit
                (protocol C1). A message that was received with `conn` needs it here too. None: the
                call commits at once.

        Raises:
            SpentReceipt: The delivery was released or given back meanwhile.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: It is no message that `receive` returned, or the messages are of
                several deliveries.
        """
        messages = _required("ack", message)
        if messages:
            values = _ACK.values(messages[0].receipt, None, [one.queue_offset for one in messages])
            with settling("ack", messages[0].topic, count=len(messages)):
                await self._rows(_ACK, values, conn, repeat=True)

    async def nack(
        self,
        message: Message | Sequence[Message],
        reason: str | None = None,
        delay: Interval | None = None,
        final: bool = False,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Send a message of a delivery, or several, to the retry lane or to the dead letters.

        The other messages stay claimed.

        Args:
            message: The message that failed, or a list of messages of one delivery.
            reason: Why it failed; shown with the dead letter and by `trace`. None: no reason.
            delay: How long until the next attempt. None: the subscription's back-off.
            final: Make it a dead letter at once, whatever attempts are left.
            conn: The caller's transaction. A message that was received with `conn` needs it here
                too. None: the call commits at once.

        Raises:
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: It is no message that `receive` returned, the messages are of several
                deliveries, one of them is acknowledged or returned, or `delay` is out of range.
        """
        messages = _required("nack", message)
        if messages:
            ids = [one.message_id for one in messages]
            await self.nack_delivery(str(messages[0].receipt), ids, reason, delay, final, conn=conn)

    async def ack_delivery(self, receipt: str, through: int | None = None, *, conn: Caller | None = None) -> None:
        """Acknowledge a whole delivery, or the part of it up to an offset.

        For programs that have only the receipt. `AsyncDelivery.ack` does the same.

        Args:
            receipt: The receipt of the delivery's messages.
            through: The last offset that is acknowledged; the rest stays claimed. None: the whole
                delivery.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            MalformedReceipt: The text is no receipt of this broker.
            SpentReceipt: The delivery was released or given back meanwhile.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: `through` is outside the delivery.
        """
        with settling("ack"):
            await self._rows(_ACK, {"receipt": receipt, "through": through, "offsets": None}, conn, repeat=True)

    async def nack_delivery(
        self,
        receipt: str,
        message_ids: Sequence[int],
        reason: str | None = None,
        delay: Interval | None = None,
        final: bool = False,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Send messages of a delivery to the retry lane, or to the dead letters, by their ids.

        For programs that have only the receipt and the ids. `nack` does the same.

        Args:
            receipt: The receipt of the delivery.
            message_ids: The messages that failed. The others stay claimed.
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
        values = _NACK.values(receipt, message_ids, reason, delay, final)
        with settling("nack"):
            await self._rows(_NACK, values, conn)

    async def extend(self, receipt: str, lease: Interval, *, conn: Caller | None = None) -> None:
        """Make the lease of a whole delivery end later.

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
        """Give a delivery back, so that what is left of it may be received again at once.

        No attempt is counted.

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
    return [Message._from_row(tuple(row)) for row in rows]


def _required(call: str, given: object) -> list[Message]:
    """The messages, all of one delivery. Raises InvalidArgument."""
    messages: list[Any] = [given] if isinstance(given, Message) or not isinstance(given, Sequence) else list(given)
    if isinstance(given, (str, bytes)) or not all(isinstance(one, Message) for one in messages):
        raise InvalidArgument(
            f"{call} takes a message that receive returned, not {type(given).__name__}: "
            f"delivery.{call}() or {call}_delivery(receipt) is for a whole delivery"
        )
    receipts = {one.receipt for one in messages}
    if None in receipts:
        raise InvalidArgument(f"{call} takes a message that receive returned; fetch only reads")
    if len(receipts) > 1:
        raise InvalidArgument(f"{call} takes messages of one delivery, not of {len(receipts)}")
    return messages
