"""Receiving and settling deliveries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._async.produce import listed
from mqpg._async.waiting import Wake
from mqpg._sql import DELIVERY, function
from mqpg.errors import InvalidArgument
from mqpg.message import Interval, Message, interval

__all__ = ["Consuming"]

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
        wait: float = 0.0,
        conn: Caller | None = None,
    ) -> list[Message]:
        """Messages of one queue (or of the retry lane), leased under one receipt; none when there are none.

        `wait` is how many seconds to wait for some: woken by the appender, not by looking again and again.
        With `conn` the claim lives as long as the caller's transaction, which cannot wait: what it waits for
        is older than its end. Raises UnknownSubscription, InvalidArgument.
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
            return await self._receive(values, conn)
        if not _is_positive(wait):
            raise InvalidArgument(f"wait must be seconds, 0 or more, not {wait!r}")
        if conn is not None:
            raise InvalidArgument("wait and conn exclude each other: waiting would hold your transaction open")
        give_up = time.monotonic() + wait
        with Wake(self, topic, consumer_group, consumer) as wake:
            while not (messages := await self._receive(values)) and (left := give_up - time.monotonic()) > 0:
                await wake.wait(seconds=left)
        return messages

    async def _receive(self, values: dict[str, Any], conn: Caller | None = None) -> list[Message]:
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
        final: bool = False,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Send some messages of a delivery to retry or to the dead letters (at once if `final`); the rest stays."""
        values = {
            "receipt": receipt,
            "message_ids": listed(message_ids, "message_ids"),
            "reason": reason,
            "delay": interval(delay),
            "final": final,
        }
        await self._rows(_NACK, values, conn)

    async def extend(self, receipt: str, lease: Interval, *, conn: Caller | None = None) -> None:
        """Have the lease end `lease` from now."""
        await self._rows(_EXTEND, {"receipt": receipt, "lease": interval(lease)}, conn, repeat=True)

    async def release(self, receipt: str, *, conn: Caller | None = None) -> None:
        """Give a delivery back; no attempt is counted."""
        await self._rows(_RELEASE, {"receipt": receipt}, conn, repeat=True)


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and value > 0
