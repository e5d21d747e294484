"""Whether the broker's log is still the one that a local offset was counted in (protocol C2)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mqpg._async.client.client import AsyncClient
from mqpg._async.stores.database import UserDatabase
from mqpg._async.stores.offsets import Position
from mqpg.user_tables.tables import located, offsets
from mqpg.values.errors import OffsetBeyondLog, OffsetOutOfRange
from mqpg.values.messages import Message

__all__ = ["LogCheck"]

logger = logging.getLogger("mqpg")


class LogCheck:
    """Compares a local offset with the log.

    It does so for the first delivery of a queue, after every new connection, and for a delivery that
    begins before the offset. A broker that lost messages makes such a delivery, also behind a pooler,
    whose connections outlast a promotion.
    """

    def __init__(self, group: str, topic: str, database: UserDatabase) -> None:
        self._group, self._topic = group, topic
        self._database = database
        self._generation = -1
        self._compared: set[int] = set()
        self._told: set[tuple[int, int]] = set()  # queues and offsets below which messages may come, as is known

    async def verify(self, mq: AsyncClient, position: Position | None, messages: Sequence[Message]) -> None:
        """Compare position and log at a delivery. Raises OffsetBeyondLog."""
        queue_id, last = messages[0].queue_id, messages[-1].queue_offset
        if mq.generation != self._generation:
            self._generation = mq.generation
            self._compared.clear()
        fits = position is None or position.next_offset <= messages[0].queue_offset
        if position is not None and not fits:
            applied = {m.message_id for m in messages if m.queue_offset == position.next_offset - 1}
            fits = applied == {position.last_message_id}
        if queue_id in self._compared and fits:
            return
        if position is not None:
            await self.compare(mq, queue_id, position, last)
        self._compared.add(queue_id)

    def note_return(self, last: Message) -> None:
        """Note that a delivery up to this message was given back, although its commit may have taken place."""
        self._told.add((last.queue_id, last.queue_offset + 1))

    def tell_left_out(self, broker_id: str, first: Message, next_offset: int) -> None:
        """Say that messages which this database has applied come for the first time: the group was moved back."""
        if first.attempt > 1 or first.queue_offset >= next_offset or (first.queue_id, next_offset) in self._told:
            return
        self._told.add((first.queue_id, next_offset))
        logger.warning(
            "%s/%s queue %d: offsets %d to %d are left out, because %s has applied them. If the group was moved back, "
            "or subscribed again, to apply them again: stop it, update %s set next_offset = %d, "
            "last_message_id = null where broker = '%s' and consumer_group = '%s' and topic = '%s' and queue_id = %d",
            self._group, self._topic, first.queue_id, first.queue_offset, next_offset - 1, self._database.describe(),
            located(offsets, self._database.schema).fullname, first.queue_offset, broker_id, self._group, self._topic,
            first.queue_id,
        )  # fmt: skip

    async def compare(self, mq: AsyncClient, queue_id: int, position: Position, last: int) -> None:
        """Compare position and log now. Raises OffsetBeyondLog."""
        # `info` may be from before an adoption, where the client connected before it.
        incarnation = await mq.queries.incarnation()
        where = f"queue {queue_id} of topic {self._topic} in {self._database.describe()}"
        if position.incarnation > incarnation:
            raise OffsetBeyondLog(
                f"the offset of {where} is from incarnation {position.incarnation}, but the broker is in {incarnation}"
            )
        if position.next_offset == 0 or position.last_message_id is None:
            return
        try:
            at_offset = await mq.fetch(self._topic, queue_id, position.next_offset - 1, 1)
        except OffsetOutOfRange as error:
            if position.next_offset - 1 > last:
                raise OffsetBeyondLog(f"the offset of {where} is beyond the log: {error}") from error
            return  # retention dropped that message, so there is nothing to compare with
        if not at_offset or at_offset[0].message_id != position.last_message_id:
            found = at_offset[0].message_id if at_offset else "nothing"
            raise OffsetBeyondLog(
                f"the log is not the one that the offset of {where} was counted in: at {position.next_offset - 1} it "
                f"has {found}, not message {position.last_message_id}. After a promotion or a restore run "
                "mqpg subscription realign. If the topic was dropped and created again, delete the group's rows of it "
                "in mqpg_offsets"
            )
