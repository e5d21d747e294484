"""The inbox of a relay topic (protocol T4): the consumer holds back what is not committed, and drops what came before.

Steps are FastMiniMQ's. S3: PREPARE is stored under its handle, the last one counts. S7: COMMIT deletes it in the
transaction of the effect; one without a PREPARE is a repetition and ignored. ROLLBACK deletes it. The position moves
in that same transaction (S4, S8), so a crash between none of them shows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg
from sqlalchemy import delete, insert, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable

from mqpg._async._io import Connection, DriverConnection, PgConnection
from mqpg._async.client import AsyncClient
from mqpg._async.local import LocalDatabase
from mqpg._failures import InboxFailed
from mqpg._protocol_tables import prepared, prepared_metadata
from mqpg._sql import statement
from mqpg._tables import clock
from mqpg.errors import ConfigurationError, DatabaseError, InvalidArgument, LedgerError, translate
from mqpg.message import Message

__all__ = ["HANDLE", "PHASE", "RelayInbox"]

logger = logging.getLogger("mqpg")

# Headers of a phase.
PHASE, HANDLE = "mqpg-phase", "mqpg-handle"

_LONGEST_HANDLE = 200
_IN_ORDER = ("exclusive", "pinned")
_KIND = statement("select t.kind from mqpg.topic t where t.name = %(topic)s")
_CREATE_HERE = str(CreateTable(prepared, if_not_exists=True).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
_STORE_HERE = """
insert into mqpg_prepared (consumer_group, topic, handle, message_id, queue_id, payload, prepared_at)
values (%s, %s, %s, %s, %s, %s, clock_timestamp())
on conflict (consumer_group, topic, handle) do update
set message_id = excluded.message_id, queue_id = excluded.queue_id, payload = excluded.payload,
    prepared_at = excluded.prepared_at
"""
_TAKE_HERE = """
delete from mqpg_prepared where consumer_group = %s and topic = %s and handle = %s returning payload
"""


class RelayInbox:
    """What one consumer group has seen prepared and not yet decided, in the database of its effects."""

    def __init__(self, group: str, topic: str, mode: str) -> None:
        self._group, self._topic, self._mode = group, topic, mode
        self._relays: bool | None = None

    async def ready(self, mq: AsyncClient, database: LocalDatabase | None) -> None:
        """Once: find out whether the topic relays, and create the inbox: in `database`, else at the broker.

        Raises ConfigurationError for a mode in which phases of one half do not come one after the other.
        """
        if self._relays is not None:
            return
        relays = await mq._value(_KIND, {"topic": self._topic}, repeat=True) == "relay"
        if relays and self._mode not in _IN_ORDER:
            raise ConfigurationError(
                f"topic {self._topic} relays undecided messages: its consumers must have mode exclusive or pinned"
            )
        if relays and database is None:
            async with mq.transaction() as conn:
                # `if not exists` alone lets two that start at once collide.
                await conn.execute("select pg_advisory_xact_lock(hashtext('mqpg_prepared'))")
                await conn.execute(_CREATE_HERE.encode())
        elif relays and database is not None:
            await _ensure(database)
        self._relays = relays

    async def refuse(self, mq: AsyncClient) -> None:
        """For consumers without a transaction. Raises ConfigurationError for a relay topic."""
        if self._relays is None:
            self._relays = await mq._value(_KIND, {"topic": self._topic}, repeat=True) == "relay"
        if self._relays:
            raise ConfigurationError(
                f"topic {self._topic} relays undecided messages: its consumers need a transaction for their inbox"
            )

    async def admit(self, messages: Sequence[Message], conn: PgConnection | Connection | None) -> Sequence[Message]:
        """What of a delivery takes effect now, in the transaction on `conn`; the rest is stored or dropped there."""
        if not self._relays or conn is None:
            return messages
        try:
            found = [await self._admit(message, conn) for message in messages]
        except (psycopg.Error, SQLAlchemyError) as error:
            raise InboxFailed(f"{self._group}/{self._topic}: inbox mqpg_prepared: {translate(error)}") from error
        return [message for message in found if message is not None]

    async def _admit(self, message: Message, conn: PgConnection | Connection) -> Message | None:
        phase, handle = _phase(message)
        if phase is None:
            return message
        if len(handle) > _LONGEST_HANDLE or not handle.isascii():
            # The message's fault, so it must not stop the queue.
            raise InvalidArgument(f"header {HANDLE} must be ASCII of {_LONGEST_HANDLE} characters at most")
        if phase == "prepare":
            await self._store(conn, handle, message)
            return None
        body = await self._take(conn, handle)
        if phase == "commit" and body is not None:
            return message if message.raw != "null" else replace(message, raw=body)
        if phase == "commit":
            logger.info("%s/%s: COMMIT of %s without a PREPARE: ignored", self._group, self._topic, handle)
        return None

    async def _store(self, conn: PgConnection | Connection, handle: str, message: Message) -> None:
        key = (self._group, self._topic, handle)
        if isinstance(conn, DriverConnection):
            await conn.execute(_STORE_HERE, (*key, message.message_id, message.queue_id, message.raw))
            return
        await conn.execute(delete(prepared).where(*_is(key)))
        row = {
            "consumer_group": self._group,
            "topic": self._topic,
            "handle": handle,
            "message_id": message.message_id,
            "queue_id": message.queue_id,
            "payload": message.raw,
            "prepared_at": clock(),
        }
        await conn.execute(insert(prepared).values(**row))

    async def _take(self, conn: PgConnection | Connection, handle: str) -> str | None:
        """Delete what is prepared under a handle; its payload, None where there is nothing."""
        key = (self._group, self._topic, handle)
        if isinstance(conn, DriverConnection):
            found: Any = await (await conn.execute(_TAKE_HERE, key)).fetchone()
            # Whatever row factory the connection has.
            return None if found is None else str(next(iter(found.values())) if isinstance(found, dict) else found[0])
        body: str | None = (await conn.execute(select(prepared.c.payload).where(*_is(key)))).scalar()
        if body is not None:
            await conn.execute(delete(prepared).where(*_is(key)))
        return body


def _phase(message: Message) -> tuple[str | None, str]:
    headers = message.headers if isinstance(message.headers, dict) else {}
    phase, handle = headers.get(PHASE), headers.get(HANDLE)
    if phase in ("prepare", "commit", "rollback") and isinstance(handle, str):
        return phase, handle
    return None, ""


def _is(key: tuple[str, str, str]) -> tuple[Any, Any, Any]:
    return prepared.c.consumer_group == key[0], prepared.c.topic == key[1], prepared.c.handle == key[2]


async def _ensure(database: LocalDatabase) -> None:
    if database.knows(prepared):
        return
    async with database.engine.connect() as conn:
        try:
            await database.verify(conn, prepared)
            return
        except LedgerError:
            await conn.rollback()
        # Another process was faster, or it is not allowed: the next look tells.
        with suppress(DatabaseError):
            await database.create(prepared_metadata)
        await database.verify(conn, prepared)
