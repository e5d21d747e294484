"""The way on for a consumer that is ahead of a broker which lost messages (protocol C2).

A promoted asynchronous standby or a restored copy lacks the end of its queues, which a consumer
with its own database may have applied. The offsets of that end are given again, to messages that
survived without their offset and to new ones. The position moves back to where both agree. From
there on each message is looked up in the inbox and the journal before it is applied.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import URL

from mqpg._async._acompat import Connection, Engine
from mqpg._async.client.client import AsyncClient
from mqpg._async.consumer.log_check import LogCheck
from mqpg._async.stores.database import UserDatabase
from mqpg._async.stores.journal import Journal
from mqpg._async.stores.offsets import Offsets, Position
from mqpg.values.choices import WithoutJournal
from mqpg.values.errors import ConfigurationError, OffsetBeyondLog, OffsetOutOfRange, WrongState
from mqpg.values.messages import Realigned

__all__ = ["realign"]


@dataclass(frozen=True, slots=True)
class _Plan:
    result: Realigned
    incarnation: int


async def realign(
    mq: AsyncClient,
    database: str | URL | Engine,
    group: str,
    topic: str,
    *,
    without_journal: WithoutJournal | None = None,
    dry_run: bool = False,
    schema: str | None = None,
) -> list[Realigned]:
    """Move a consumer that is ahead of its broker back to where both agree (protocol C2).

    Stop the consumer first. Queues that are not ahead stay as they are, so a repetition changes
    nothing. The consumer then continues from there, and leaves out what its journal says it has
    applied. It does so for good.

    Args:
        mq: The broker, after its adoption.
        database: The SQLAlchemy URL or engine of the consumer's database.
        group: The consumer group.
        topic: The topic.
        without_journal: What to do where no journal says what was applied beyond the surviving end.
            "repeat" applies every message from there on, which may apply some a second time. "skip"
            continues at the queue's present end, which may leave some out for ever. None: refuse.
        dry_run: Only say what would be done.
        schema: The schema of the consumer's tables. None: where the connection looks for them.

    Returns:
        The queues that were ahead.

    Raises:
        WrongState: There is no journal, and `without_journal` is None. Nothing has changed.
        OffsetBeyondLog: No adoption of this broker explains the position.
        ConfigurationError: The topic is a relay topic, whose inbox cannot be moved back.
        UnknownSubscription: The group does not read the topic.
        ConnectionFailed: The broker does not answer, or the database does not.
        LedgerError: A table is missing or not as it must be.
    """
    await mq.queries.require_subscription(group, topic)
    if await mq.queries.topic_kind(topic) == "relay":
        raise ConfigurationError(f"topic {topic} relays undecided messages: its inbox cannot be moved back")
    own = UserDatabase(database, schema)
    try:
        return await _Realignment(mq, own, group, topic).run(without_journal, dry_run)
    finally:
        await own.close()


class _Realignment:
    """One call of `realign`."""

    def __init__(self, mq: AsyncClient, database: UserDatabase, group: str, topic: str) -> None:
        self._mq, self._database, self._group, self._topic = mq, database, group, topic
        self._offsets = Offsets(database, group, topic)
        self._journal = Journal(group, topic, database.schema)

    async def run(self, without_journal: WithoutJournal | None, dry_run: bool) -> list[Realigned]:
        await self._offsets.ensure()
        broker_id = (await self._mq.info()).broker_id
        plans = await self._plans(broker_id, without_journal)
        unknown = [plan.result.queue_id for plan in plans if not plan.result.journaled]
        if unknown and without_journal is None and not dry_run:
            raise WrongState(
                f"group {self._group} has no journal of what it applied in queues {', '.join(map(str, unknown))} of "
                f"topic {self._topic} beyond the end that the broker still has: choose without_journal='repeat', which "
                "may apply messages a second time, or 'skip', which may leave some out"
            )
        for plan in [] if dry_run else plans:
            await self._move(broker_id, plan)
        return [plan.result for plan in plans]

    async def _plans(self, broker_id: str, without_journal: WithoutJournal | None) -> list[_Plan]:
        async with self._database.connect() as conn:
            positions = await self._offsets.positions(conn, broker_id)
            plans = [await self._plan(conn, broker_id, one, positions[one], without_journal) for one in positions]
        return [plan for plan in plans if plan is not None]

    async def _plan(
        self,
        conn: Connection,
        broker_id: str,
        queue_id: int,
        position: Position,
        without_journal: WithoutJournal | None,
    ) -> _Plan | None:
        """What to do with a queue. None if its consumer is not ahead."""
        incarnation = await self._mq.queries.incarnation()
        surviving, end = await self._mq.queries.surviving_offset(
            self._group, self._topic, queue_id, position.incarnation
        )
        try:
            await LogCheck(self._group, self._topic, self._database).compare(self._mq, queue_id, position, end - 1)
            return None
        except OffsetBeyondLog as error:
            if surviving is None or surviving >= position.next_offset:
                raise OffsetBeyondLog(f"{error}. No adoption of this broker explains that") from error
        journaled = await self._is_journaled(conn, broker_id, queue_id, surviving, position.last_message_id)
        to_offset = end if not journaled and without_journal == "skip" else surviving
        return _Plan(Realigned(queue_id, position.next_offset, to_offset, end, journaled), incarnation)

    async def _is_journaled(
        self, conn: Connection, broker_id: str, queue_id: int, surviving: int, last_id: int | None
    ) -> bool:
        """Whether inbox and journal know what was applied behind the surviving end."""
        recorded = await self._offsets.states_by_id(conn, broker_id, [] if last_id is None else [last_id])
        if not recorded and (last_id is None or not await self._journal.has(conn, last_id, broker_id)):
            return False
        return await self._journal.begins_before(conn, queue_id, surviving, broker_id)

    async def _move(self, broker_id: str, plan: _Plan) -> None:
        queue_id, to_offset = plan.result.queue_id, plan.result.to_offset
        last_id = await self._id_before(queue_id, to_offset)
        async with self._database.short_transaction(5.0) as conn:
            position = await self._offsets.position(conn, broker_id, queue_id, lock=True)
            if position is None or position.next_offset != plan.result.from_offset:
                raise WrongState(f"queue {queue_id} of topic {self._topic} is being consumed: stop its consumer first")
            await self._offsets.realign(
                conn, broker_id, queue_id, Position(to_offset, last_id, plan.incarnation, realigned=True)
            )
            await conn.commit()

    async def _id_before(self, queue_id: int, offset: int) -> int | None:
        """The message before an offset. None if there is none, or if retention dropped it."""
        if offset == 0:
            return None
        try:
            found = await self._mq.fetch(self._topic, queue_id, offset - 1, 1)
        except OffsetOutOfRange:
            return None
        return found[0].message_id if found else None
