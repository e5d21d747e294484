"""Consumption into a database of the consumer's own (protocol C2): exactly once, in order per queue.

The truth is the offsets row there, written in the transaction of the effect; the broker's cursor follows
by an ack after the local commit. So a crash between the two costs a redelivery whose messages lie below
the local offset and are passed over. Where a delivery begins behind the local offset (the local database
was restored, or the broker gave messages up), what lies between is read from the log with `fetch`.

A failed message must not be lost or applied twice, nor block its queue unless the subscription says so (then
the local offset stops before it, and it comes again at its place). In the local transaction its effect
is undone and a row `deferred` goes into the inbox under its id, while the offset moves past it; after the
local commit it is nacked. If that is lost in a crash, the redelivery finds the row and nacks then. From
the retry lane (queue -1) a message is applied only under a `deferred` row, which becomes `applied` in the
same transaction: a second delivery finds it so and is only acknowledged. A retry without a row was never
deferred by this database (it was restored or replaced): whether it has been applied cannot be known, so it
is not; it goes back with that reason and ends among the dead letters, where somebody can look.

Hard stops, because going on would lose or repeat: a local offset beyond the log, or a log that has another
message at the last applied offset (OffsetBeyondLog), another broker's offsets (LedgerError), a log that
no longer reaches back to the local offset (OffsetOutOfRange).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

from sqlalchemy import Connection as SyncConnection
from sqlalchemy.exc import SQLAlchemyError

from mqpg._async._io import Connection, Event, run_sync
from mqpg._async.calling import Calls, Reply
from mqpg._async.client import AsyncClient
from mqpg._async.lanes import Lanes
from mqpg._async.local import LocalDatabase, begin_immediate
from mqpg._async.logcheck import LogCheck
from mqpg._async.offsets import Offsets
from mqpg._async.settling import accept, give_up
from mqpg._async.trying import Trial, Tried
from mqpg._consumption import Options
from mqpg._dialects import MYSQL, is_answer
from mqpg._failures import Failure, KnownReason, RoundLost, reason_of
from mqpg.errors import Error, ReceiptError
from mqpg.message import Message

__all__ = ["EffectThere"]

logger = logging.getLogger("mqpg")

# Offsets that are looked at in one go where the delivery leaves some out.
_WINDOW = 4096
_NEVER_DEFERRED = "never deferred by this database: not known whether it was applied"


class EffectThere:
    """Rounds of a consumer with a database of its own; handlers get the SQLAlchemy connection."""

    def __init__(self, options: Options, calls: Calls) -> None:
        self._options = options
        self._calls = calls
        self._trial = Trial(calls, self._after, self._policy)
        self._lanes = Lanes(options)
        self._database = LocalDatabase(options.database)
        self._offsets = Offsets(self._database, options.group, options.topic)
        self._check = LogCheck(options.topic, self._database)
        # The client of the round under way: rounds of one consumer have one client.
        self._mq: AsyncClient | None = None

    async def close(self) -> None:
        """Close the local connections, unless the engine is the caller's."""
        await self._database.close()

    async def step(self, mq: AsyncClient, worker: int = 0, stop: Event | None = None) -> int:
        """One delivery: effect and offset in one local transaction, then the ack; how many messages it had."""
        self._mq = mq
        await self._offsets.ensure()
        await self._lanes.ready(mq)
        await self._calls.inbox.ready(mq, self._database)
        while True:
            try:
                return await self._round(mq, worker)
            except RoundLost:
                # Again, to give up the message that lost it.
                continue

    async def _round(self, mq: AsyncClient, worker: int) -> int:
        delivery = await self._lanes.receive(mq, worker)
        if not delivery:
            return 0
        messages = self._trial.chosen(delivery)
        try:
            if messages[0].queue_id < 0:
                tried = await self._apply_retries(messages)
            else:
                await self._catch_up(mq, messages)
                tried = await self._apply(mq, messages, claimed=True)
        except Exception:
            # No fault of the messages: they come again, and no attempt is counted.
            with suppress(Error):
                await mq.release(str(messages[0].receipt))
            raise
        await self._reply(mq, tried.replies)
        await self._settle(mq, delivery, messages, tried)
        return len(messages)

    async def _reply(self, mq: AsyncClient, replies: Sequence[Reply]) -> None:
        """The effect is committed; a reply that cannot be sent (anybody can name an unknown topic) is left out."""
        for request, payload in replies:
            try:
                await mq.reply(request, payload)
            except Exception as error:
                logger.warning("%s/%s: no reply to message %d: %s", self._options.group, self._options.topic,
                               request.message_id, reason_of(error))  # fmt: skip

    async def _settle(
        self, mq: AsyncClient, delivery: Sequence[Message], messages: Sequence[Message], tried: Tried
    ) -> None:
        try:
            await give_up(mq, str(delivery[0].receipt), tried.failures)
            await accept(mq, delivery, messages, tried)
        except ReceiptError as error:
            # Another process of this name has taken over; it finds here what was done.
            logger.warning("%s/%s: %s", self._options.group, self._options.topic, error)

    async def _catch_up(self, mq: AsyncClient, messages: Sequence[Message]) -> None:
        """Apply from the log what the delivery leaves out, up to its end or to where it is without holes.

        What the subscription's filter does not choose and what it was moved over (seek, expiry) is left out rightly.
        """
        queue_id, first, last = messages[0].queue_id, messages[0].queue_offset, messages[-1].queue_offset
        whole = last - first + 1 == len(messages)
        delivered = {message.queue_offset for message in messages}
        until, start = first if whole else last + 1, 0
        while True:
            async with self._database.engine.connect() as conn:
                position = await self._offsets.position(conn, queue_id, lock=False)
            await self._check.verify(mq, queue_id, position, last)
            if position is None or max(start, position.next_offset) >= until:
                return
            start = max(start, position.next_offset)
            upto = min(until, start + _WINDOW)
            wanted = await mq._wanted(self._options.group, self._options.topic, queue_id, start, upto)
            if delivered.issuperset(wanted):
                start = upto
                continue
            missing = await self._fetch(mq, queue_id, wanted)
            await self._apply(mq, missing, claimed=False)
            start = missing[-1].queue_offset + 1

    async def _fetch(self, mq: AsyncClient, queue_id: int, wanted: Sequence[int]) -> list[Message]:
        count = min(self._options.max_messages, wanted[-1] - wanted[0] + 1)
        found = await mq.fetch(self._options.topic, queue_id, wanted[0], count)
        missing = [message for message in found if message.queue_offset in set(wanted)]
        logger.warning(
            "%s/%s queue %d: applying offsets %d to %d from the log, the broker thought they were done",
            self._options.group, self._options.topic, queue_id, missing[0].queue_offset, missing[-1].queue_offset,
        )  # fmt: skip
        return missing

    async def _apply(self, mq: AsyncClient, messages: Sequence[Message], *, claimed: bool) -> Tried:
        """Apply what lies at or behind the local offset; the failures to be nacked, earlier ones too."""
        info = await mq.info()
        async with self._transaction() as conn:
            position = await self._offsets.position(conn, messages[0].queue_id, lock=True)
            fresh = [m for m in messages if position is None or m.queue_offset >= position.next_offset]
            old: list[Failure] = []
            if len(fresh) < len(messages) or not claimed:
                old, fresh = await self._sort_out(mq, conn, messages, fresh, claimed)
            tried = await self._trial.apply(conn, fresh)
            if tried.failures and not claimed:
                # There is no claim to nack it from, so it has to be done here, in its place.
                raise tried.failures[0].error
            blocker = tried.blocker
            for failure in tried.failures:
                if failure.message is not blocker:
                    await self._offsets.defer(conn, failure.message, failure.reason)
            passed = [m for m in messages if blocker is None or m.queue_offset < blocker.queue_offset]
            if passed and (position is None or passed[-1].queue_offset >= position.next_offset):
                await self._offsets.move(conn, passed[-1], position, info)
            await self._commit(conn, tried.applied if claimed else [])
        tried.failures = old + tried.failures
        return tried

    async def _sort_out(
        self, mq: AsyncClient, conn: Connection, messages: Sequence[Message], fresh: list[Message], claimed: bool
    ) -> tuple[list[Failure], list[Message]]:
        """What of a redelivery still has to be nacked; what of a gap is still to be applied."""
        states = await self._offsets.states(conn, messages)
        deferred = {message_id: reason for message_id, (state, reason) in states.items() if state == "deferred"}
        if claimed:
            new = {m.message_id for m in fresh}
            old = [m for m in messages if m.message_id in deferred and m.message_id not in new]
            return [Failure(m, KnownReason(deferred[m.message_id] or "")) for m in old], fresh
        # In a gap: what the broker has given up (its claim was lost too often) may be given to us again later.
        left = [m for m in fresh if m.message_id not in states]
        dead = await mq._dead_among(self._options.group, self._options.topic, [m.message_id for m in left])
        for message in left:
            if message.message_id in dead:
                await self._offsets.defer(conn, message, "dead letter of the broker")
        return [], [m for m in left if m.message_id not in dead]

    async def _apply_retries(self, messages: Sequence[Message]) -> Tried:
        """A delivery of the retry lane, under the inbox rows; the failures to be nacked."""
        async with self._transaction() as conn:
            states = await self._offsets.states(conn, messages)
            due = [m for m in messages if states.get(m.message_id, ("",))[0] == "deferred"]
            tried = await self._trial.apply(conn, due)
            failed = {failure.message.message_id for failure in tried.failures}
            await self._offsets.settle(conn, [m for m in due if m.message_id not in failed])
            await self._commit(conn, tried.applied)
        strange = [m for m in messages if m.message_id not in states]
        tried.failures += [Failure(m, KnownReason(_NEVER_DEFERRED)) for m in strange]
        return tried

    async def _commit(self, conn: Connection, applied: Sequence[Message]) -> None:
        try:
            await conn.commit()
        except SQLAlchemyError as error:
            if is_answer(error):
                # SQLite's transaction is open still, SQLAlchemy takes it for ended, and the pool would keep it so.
                await run_sync(conn, _roll_back)
            self._trial.blame(applied, error)
            raise

    async def _policy(self, conn: Connection) -> str:
        assert self._mq is not None
        return await self._mq._on_failure(self._options.group, self._options.topic)

    async def _after(self, conn: Connection, messages: Sequence[Message], replies: Sequence[Reply]) -> None:
        if self._options.journal:
            await self._offsets.journal(conn, messages)

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Connection]:
        async with self._database.engine.connect() as conn:
            if self._database.dialect == "sqlite":
                await begin_immediate(conn)
            elif self._database.dialect in MYSQL:
                # Else a look for a row that is not there yet locks the gap, and two first rounds deadlock.
                await conn.execution_options(isolation_level="READ COMMITTED")
            yield conn


def _roll_back(conn: SyncConnection) -> None:
    conn.connection.rollback()
