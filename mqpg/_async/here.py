"""Consumption in the broker's own database (protocol C1): receive, effect and ack in one transaction.

Exactly once: the claim lives and dies with the transaction. The effect runs in a savepoint, so that a
handler's error undoes it and still counts an attempt. When several messages were given and one fails,
all are undone and done again one by one, which tells which one it was. Replies are sent in it too.

In mode shared the claim is made in a transaction of its own and its lease kept up, since it would hold back the
other members of its queue as long as it is open. Effect and ack are one transaction, so it is exactly once all the
same: if the claim was taken over meanwhile, the ack is refused and the effect undone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from mqpg._async._io import Connection, Engine, Event, PgConnection, database_url, make_engine
from mqpg._async.calling import Calls, Reply
from mqpg._async.client import AsyncClient
from mqpg._async.lanes import Lanes
from mqpg._async.leases import Lease, kept
from mqpg._async.settling import accept, give_up
from mqpg._async.trying import Trial, Tried
from mqpg._consumption import Options
from mqpg._failures import RoundLost
from mqpg._sql import statement
from mqpg.errors import Error, ReceiptError
from mqpg.message import Message

__all__ = ["EffectHere"]

logger = logging.getLogger("mqpg")

_CREATE = """
create table if not exists mqpg_applied (
    consumer_group varchar(127) not null, topic varchar(127) not null, queue_id int not null,
    queue_offset bigint not null, message_id bigint not null, applied_at timestamptz not null
);
create index if not exists mqpg_applied_message on mqpg_applied (consumer_group, topic, message_id)
"""
_JOURNAL = statement("""
    insert into mqpg_applied (consumer_group, topic, queue_id, queue_offset, message_id, applied_at)
    select cast(%(consumer_group)s as text), cast(%(topic)s as text), u.queue_id, u.queue_offset, u.message_id,
        clock_timestamp()
    from unnest(cast(%(queue_ids)s as int[]), cast(%(offsets)s as bigint[]), cast(%(message_ids)s as bigint[]))
        as u(queue_id, queue_offset, message_id)
    returning message_id
""")


class EffectHere:
    """Rounds of a consumer whose effects are in the broker's database."""

    def __init__(self, options: Options, calls: Calls) -> None:
        self._options = options
        self._calls = calls
        self._lanes = Lanes(options)
        self._trial = Trial(calls, self._after, self._policy)
        self._engine: Engine | None = None
        self._ready = False
        self._lease = Lease(options.lease)
        # The client of the round under way: rounds of one consumer have one client.
        self._mq: AsyncClient | None = None

    async def step(self, mq: AsyncClient, worker: int = 0, stop: Event | None = None) -> int:
        """One delivery in one transaction; how many messages it had."""
        self._mq = mq
        await self._prepare(mq)
        if self._lanes.mode == "shared":
            return await self._leased(mq, worker)
        return await self._applied(mq, worker)

    async def _leased(self, mq: AsyncClient, worker: int) -> int:
        messages = await self._lanes.receive(mq, worker)
        if not messages:
            return 0
        receipt, count = str(messages[0].receipt), len(messages)
        async with kept(mq, receipt, self._lease.lease, await self._lease.seconds(mq)):
            try:
                count = await self._applied(mq, worker, messages)
            except ReceiptError as error:
                logger.warning(
                    "%s/%s: undone, somebody else has it now: %s", self._options.group, self._options.topic, error
                )
            except Exception:
                # No fault of the messages: they come again, and no attempt is counted.
                with suppress(Error):
                    await mq.release(receipt)
                raise
        return count

    async def _applied(self, mq: AsyncClient, worker: int, claimed: Sequence[Message] = ()) -> int:
        """What was claimed before, else a delivery, in one transaction; how many messages it settled."""
        while True:
            # Again, to give up the message that lost it.
            with suppress(RoundLost):
                return await self._round(mq, worker, claimed)

    async def _round(self, mq: AsyncClient, worker: int, claimed: Sequence[Message]) -> int:
        tried = Tried()
        try:
            async with self._transaction(mq) as conn:
                delivery = claimed or await self._lanes.receive(mq, worker, conn=conn)
                if delivery:
                    tried = await self._apply(mq, conn, delivery)
        except Exception as error:
            # Nothing was tried yet unless this is the commit.
            self._trial.blame(tried.applied, error)
            raise
        return len(tried.applied) + tried.left

    async def close(self) -> None:
        """Close the connections that are not the client's."""
        if self._engine is not None:
            await self._engine.dispose()

    async def _apply(self, mq: AsyncClient, conn: PgConnection | Connection, delivery: Sequence[Message]) -> Tried:
        messages = self._trial.chosen(delivery)
        tried = await self._trial.apply(conn, messages)
        await give_up(mq, str(messages[0].receipt), tried.failures, conn=conn)
        if tried.failures and messages[0].queue_id >= 0 and await self._policy(conn) != tried.policy:
            # alter_subscription meanwhile: whether what is behind had to wait was decided by the old one.
            raise RoundLost
        await accept(mq, delivery, messages, tried, conn=conn)
        return tried

    async def _policy(self, conn: PgConnection | Connection) -> str:
        assert self._mq is not None
        return await self._mq._on_failure(self._options.group, self._options.topic, conn)

    async def _prepare(self, mq: AsyncClient) -> None:
        await self._lanes.ready(mq)
        await self._calls.inbox.ready(mq, None)
        if not self._ready and self._options.journal:
            async with mq.transaction() as conn:
                # `if not exists` alone lets two that start at once collide.
                await conn.execute("select pg_advisory_xact_lock(hashtext('mqpg_applied'))")
                await conn.execute(_CREATE)
        self._ready = True

    @asynccontextmanager
    async def _transaction(self, mq: AsyncClient) -> AsyncGenerator[PgConnection | Connection]:
        if self._calls.wants_driver:
            async with mq.transaction() as conn:
                yield conn
            return
        if self._engine is None:
            size = self._options.concurrency
            url = database_url(mq.dsn)
            self._engine = make_engine(url, pool_size=size, pool_pre_ping=True, isolation_level="READ COMMITTED")
        async with self._engine.begin() as conn:
            yield conn

    async def _after(self, conn: Any, messages: Sequence[Message], replies: list[Reply]) -> None:
        assert self._mq is not None
        for request, payload in replies:
            await self._mq.reply(request, payload, conn=conn)
        if self._options.journal:
            values = {
                "consumer_group": self._options.group,
                "topic": self._options.topic,
                "queue_ids": [message.queue_id for message in messages],
                "offsets": [message.queue_offset for message in messages],
                "message_ids": [message.message_id for message in messages],
            }
            await self._mq._rows(_JOURNAL, values, conn)
