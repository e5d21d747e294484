"""What one call of `receive` returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, overload

from mqpg._async.client.execute import Caller
from mqpg.values.errors import InvalidArgument, shown
from mqpg.values.messages import Interval, Message

__all__ = ["AsyncDelivery", "Receiver"]


class Receiver(Protocol):
    """The calls of a client that settle a delivery by its receipt."""

    async def ack_delivery(self, receipt: str, through: int | None = None, *, conn: Caller | None = None) -> None: ...
    async def nack_delivery(
        self,
        receipt: str,
        message_ids: Sequence[int],
        reason: str | None = None,
        delay: Interval | None = None,
        final: bool = False,
        *,
        conn: Caller | None = None,
    ) -> None: ...
    async def extend(self, receipt: str, lease: Interval, *, conn: Caller | None = None) -> None: ...
    async def release(self, receipt: str, *, conn: Caller | None = None) -> None: ...


class AsyncDelivery(Sequence[Message]):
    """The messages of one call of `receive`: a sequence, and calls for all of it.

    `ack` of the client acknowledges single messages.

        delivery = await mq.receive("billing", "orders")
        for message in delivery:
            handle(message)
        await delivery.ack()

    A delivery that was received in the caller's transaction is acknowledged, extended and returned
    in that transaction, unless the call names another one.

    Args:
        mq: The client that received it.
        messages: The messages, in offset order.
        conn: The caller's transaction that `receive` ran in. None: it committed at once.
    """

    def __init__(self, mq: Receiver, messages: Sequence[Message], conn: Caller | None) -> None:
        self._mq = mq
        self._messages = list(messages)
        self._conn = conn

    @property
    def receipt(self) -> str | None:
        """The receipt, which is the same for all messages. None: the delivery is empty."""
        return self._messages[0].receipt if self._messages else None

    async def ack(self, through: Message | None = None, *, conn: Caller | None = None) -> None:
        """Acknowledge the whole delivery, or its part up to a message.

        Args:
            through: The last message that is acknowledged; the rest stays claimed. None: all.
            conn: The caller's transaction. None: the one of `receive`, if there was one, or else
                the call commits at once.

        Raises:
            SpentReceipt: The delivery was released or given back meanwhile.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: `through` is not of this delivery.
        """
        if self.receipt is not None:
            if through is not None and not isinstance(through, Message):
                raise InvalidArgument(f"through must be a message of the delivery, not {shown(through)}")
            offset = None if through is None else through.queue_offset
            await self._mq.ack_delivery(self.receipt, offset, conn=self._within(conn))

    async def nack(
        self,
        reason: str | None = None,
        delay: Interval | None = None,
        final: bool = False,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Send all messages to the retry lane, or to the dead letters.

        If some of them are done, `release` gives the others back, and `nack` of the client
        returns the ones that failed.

        Args:
            reason: Why they failed. None: no reason.
            delay: How long until the next attempt. None: the subscription's back-off.
            final: Make them dead letters at once, whatever attempts are left.
            conn: The caller's transaction. None: as in `ack`.

        Raises:
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: One of them is acknowledged or returned, or `delay` is out of range.
        """
        if self.receipt is not None:
            ids = [message.message_id for message in self._messages]
            await self._mq.nack_delivery(self.receipt, ids, reason, delay, final, conn=self._within(conn))

    async def extend(self, lease: Interval, *, conn: Caller | None = None) -> None:
        """Make the lease end later.

        Args:
            lease: How long the lease lasts from now, in seconds where it is a number.
            conn: The caller's transaction. None: as in `ack`.

        Raises:
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
            InvalidArgument: The lease is out of range.
        """
        if self.receipt is not None:
            await self._mq.extend(self.receipt, lease, conn=self._within(conn))

    async def release(self, *, conn: Caller | None = None) -> None:
        """Give back what is left, so that it may be received again at once. No attempt is counted.

        Args:
            conn: The caller's transaction. None: as in `ack`.

        Raises:
            SpentReceipt: Nothing of the delivery is left.
            StaleReceipt: The lease ended, and another consumer has received the messages since.
        """
        if self.receipt is not None:
            await self._mq.release(self.receipt, conn=self._within(conn))

    def _within(self, conn: Caller | None) -> Caller | None:
        return self._conn if conn is None else conn

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __eq__(self, other: object) -> bool:
        """Compare with another delivery, or with a list of messages."""
        if isinstance(other, (AsyncDelivery, list)):
            return self._messages == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} messages, receipt {self.receipt}>"
