"""Receiving and settling deliveries."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._async.produce import listed
from mqpg._sql import DELIVERY, function
from mqpg.message import Interval, Message, interval

__all__ = ["Consuming"]

_RECEIVE = function(
    "receive",
    "consumer_group text, topic text, max_messages int, lease interval, consumer text, queue_id int",
    columns=DELIVERY,
)
_FETCH = function("fetch", "topic text, queue_id int, from_offset bigint, max_messages int", columns=DELIVERY)
_ACK = function("ack", "receipt text, through bigint")
_NACK = function("nack", "receipt text, message_ids bigint[], reason text, delay interval")
_EXTEND = function("extend", "receipt text, lease interval")
_RELEASE = function("release", "receipt text")
_UNPIN = function("unpin", "consumer_group text, topic text, queue_id int, consumer text")


class Consuming(Core):
    """Calls of a consumer. Receipts raise MalformedReceipt, SpentReceipt, StaleReceipt."""

    async def receive(
        self,
        consumer_group: str,
        topic: str,
        max_messages: int = 100,
        lease: Interval = 30.0,
        *,
        consumer: str | None = None,
        queue_id: int | None = None,
        conn: Caller | None = None,
    ) -> list[Message]:
        """Messages of one queue (or of the retry lane), leased under one receipt; never waits.

        With `conn` the claim lives as long as the caller's transaction. Raises UnknownSubscription, …
        """
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "max_messages": max_messages,
            "lease": interval(lease),
            "consumer": consumer,
            "queue_id": queue_id,
        }
        return [Message.from_row(tuple(row)) for row in await self._rows(_RECEIVE, values, conn, repeat=True)]

    async def fetch(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        max_messages: int = 100,
        *,
        conn: Caller | None = None,
    ) -> list[Message]:
        """Read a queue from an offset, without claim or receipt. Raises OffsetOutOfRange."""
        values = {"topic": topic, "queue_id": queue_id, "from_offset": from_offset, "max_messages": max_messages}
        return [Message.from_row(tuple(row)) for row in await self._rows(_FETCH, values, conn, repeat=True)]

    async def ack(self, receipt: str, through: int | None = None, *, conn: Caller | None = None) -> None:
        """Settle a delivery, all of it or up to the offset `through` (inclusive)."""
        await self._rows(_ACK, {"receipt": receipt, "through": through}, conn, repeat=True)

    async def nack(
        self,
        receipt: str,
        message_ids: Sequence[int],
        reason: str | None = None,
        delay: Interval | None = None,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Send some messages of a delivery to the retry lane (or the dead letters); the rest stays claimed."""
        values = {
            "receipt": receipt,
            "message_ids": listed(message_ids),
            "reason": reason,
            "delay": interval(delay),
        }
        await self._rows(_NACK, values, conn)

    async def extend(self, receipt: str, lease: Interval, *, conn: Caller | None = None) -> None:
        """Have the lease end `lease` from now."""
        await self._rows(_EXTEND, {"receipt": receipt, "lease": interval(lease)}, conn, repeat=True)

    async def release(self, receipt: str, *, conn: Caller | None = None) -> None:
        """Give a delivery back; no attempt is counted."""
        await self._rows(_RELEASE, {"receipt": receipt}, conn, repeat=True)

    async def unpin(
        self,
        consumer_group: str,
        topic: str,
        queue_id: int | None = None,
        consumer: str | None = None,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Give up queues of a pinned subscription: one or all, of one member or of all."""
        values = {"consumer_group": consumer_group, "topic": topic, "queue_id": queue_id, "consumer": consumer}
        await self._rows(_UNPIN, values, conn, repeat=True)
