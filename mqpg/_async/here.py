"""Consumption in the broker's own database (protocol C1): receive, effect and ack in one transaction.

Exactly once: the claim lives and dies with the transaction. The effect runs in a savepoint, so that a
handler's error undoes it and still counts an attempt. When several messages were given and one fails,
all are undone and done again one by one, which tells which one it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqpg._async._io import Handled, PgConnection
from mqpg._async.client import AsyncClient
from mqpg._async.lanes import Lanes
from mqpg._consumption import Failure, Options, by_reason, is_passing
from mqpg.message import Message

__all__ = ["EffectHere"]

_CREATE = """
create table if not exists mqpg_applied (
    consumer_group varchar(127) not null, topic varchar(127) not null, queue_id int not null,
    queue_offset bigint not null, message_id bigint not null, applied_at timestamptz not null
);
create index if not exists mqpg_applied_message on mqpg_applied (consumer_group, topic, message_id)
"""
_JOURNAL = """
insert into mqpg_applied (consumer_group, topic, queue_id, queue_offset, message_id, applied_at)
select %s, %s, u.queue_id, u.queue_offset, u.message_id, clock_timestamp()
from unnest(%s::int[], %s::bigint[], %s::bigint[]) as u(queue_id, queue_offset, message_id)
"""


class EffectHere:
    """Rounds of a consumer whose effects are in the broker's database; handlers get the psycopg connection."""

    def __init__(self, options: Options, call: Callable[[Sequence[Message], Any], Handled]) -> None:
        self._options = options
        self._call = call
        self._lanes = Lanes(options)
        self._ready = False

    async def step(self, mq: AsyncClient) -> int:
        """One delivery in one transaction; how many messages it had."""
        await self._prepare(mq)
        async with mq.transaction() as conn:
            messages = await self._lanes.receive(mq, conn=conn)
            if not messages:
                return 0
            failures = await self._apply(conn, messages)
            await self._settle(mq, conn, messages, failures)
        return len(messages)

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _prepare(self, mq: AsyncClient) -> None:
        await self._lanes.ready(mq)
        if not self._ready and self._options.journal:
            async with mq.transaction() as conn:
                # `if not exists` alone lets two that start at once collide.
                await conn.execute("select pg_advisory_xact_lock(hashtext('mqpg_applied'))")
                await conn.execute(_CREATE)
        self._ready = True

    async def _apply(self, conn: PgConnection, messages: Sequence[Message]) -> list[Failure]:
        failure = await self._try(conn, messages)
        if failure is None:
            return []
        if len(messages) == 1:
            return [failure]
        tried = [await self._try(conn, [message]) for message in messages]
        return [failure for failure in tried if failure is not None]

    async def _try(self, conn: PgConnection, messages: Sequence[Message]) -> Failure | None:
        try:
            async with conn.transaction():
                await self._call(messages, conn)
                if self._options.journal:
                    await self._journal(conn, messages)
        except Exception as error:
            if conn.closed or is_passing(error):
                raise
            return Failure(messages[0], error)
        return None

    async def _settle(
        self, mq: AsyncClient, conn: PgConnection, messages: Sequence[Message], failures: Sequence[Failure]
    ) -> None:
        receipt = str(messages[0].receipt)
        for reason, ids in by_reason(failures).items():
            await mq.nack(receipt, ids, reason, conn=conn)
        if len(failures) < len(messages):
            await mq.ack(receipt, conn=conn)

    async def _journal(self, conn: PgConnection, messages: Sequence[Message]) -> None:
        columns = (
            [message.queue_id for message in messages],
            [message.queue_offset for message in messages],
            [message.message_id for message in messages],
        )
        await conn.execute(_JOURNAL, (self._options.group, self._options.topic, *columns))
