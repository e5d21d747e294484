# Generated from mqpg/_async/outbox.py by tools/async_to_sync.py: change that file.
"""A producer's stored messages, in the database of its business tables: table mqpg_outbox (FastMiniMQ's P1, P4, P7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from mqpg._dialects import MYSQL
from mqpg._protocol_tables import outbox
from mqpg._sync._io import Connection, Session
from mqpg._sync.durable import flushed
from mqpg._sync.ledger import _DURABLE, passing
from mqpg._sync.local import LocalDatabase
from mqpg._tables import clock
from mqpg.errors import Fenced, InvalidArgument, LedgerError
from mqpg.message import Interval, Json, encode

__all__ = ["Outbox", "OutboxEntry", "Stored"]


@dataclass(frozen=True, slots=True)
class Stored:
    """One row: a message, the broker that it is pinned to, and how far it is."""

    id: str
    state: str
    broker: str
    handle: str | None
    topic: str
    payload: str
    message_key: str | None
    tag: str | None
    headers: str | None
    delay: str | None
    producer_group: str | None = None

    @classmethod
    def of(
        cls, state: str, broker: str, group: str | None, topic: str, payload: Any,
        key: str | None, tag: str | None, headers: Any, delay: Interval | None,
    ) -> Stored:  # fmt: skip
        """A new row with an id of its own. Raises InvalidArgument for what is not JSON."""
        text = encode(payload)
        if text is None:
            raise InvalidArgument("payload must not be None")
        return cls(uuid4().hex, state, broker, None, topic, text, key, tag, encode(headers), _seconds(delay), group)

    def message(self) -> dict[str, Any]:
        """Arguments of `send` and `prepare`."""
        return {
            "key": self.message_key,
            "tag": self.tag,
            "headers": None if self.headers is None else json.loads(self.headers),
            "delay": self.delay,
            "dedup_id": self.id,
        }


_COLUMNS = [outbox.c[name] for name in Stored.__slots__]


class Outbox:
    """The table. Calls with `conn` belong to the caller's transaction, the others are one each."""

    def __init__(self, database: LocalDatabase) -> None:
        self.database = database

    def verified(self) -> None:
        """Look once whether the table is right. Raises LedgerError."""
        if self.database.knows(outbox):
            return
        with self.database.engine.connect() as conn:
            self.database.verify(conn, outbox)

    def store(self, conn: Connection | Session, row: Stored) -> None:
        """P1."""
        values = {name: getattr(row, name) for name in Stored.__slots__}
        conn.execute(insert(outbox).values(**values, created_at=clock()))

    def store_now(self, row: Stored) -> None:
        """P1 in a transaction of its own."""
        with self.database.engine.begin() as conn:
            self.durable(conn)
            self.store(conn, row)

    def durable(self, conn: Connection) -> None:
        """Have the transaction's commit wait for the disk: what the broker is told must not be forgotten here."""
        if self.database.dialect == "postgresql":
            conn.execute(select(_DURABLE))

    def move(self, conn: Connection, row: Stored, state: str, handle: str | None = None) -> bool:
        """From the row's state to another; False where somebody else has moved it."""
        values = {"state": state} if handle is None else {"state": state, "handle": handle}
        where = (outbox.c.id == row.id, outbox.c.state == row.state)
        return bool((conn.execute(update(outbox).where(*where).values(**values))).rowcount == 1)

    def give_up(self, row: Stored, lock_timeout: float = 0.2) -> bool:
        """Rule that a stored message is rolled back; False while its local transaction is open, or was committed.

        The transaction moves the same row, so only one of the two gets it: no message is rolled back whose local
        transaction may still commit.
        """
        try:
            with self.database.short_transaction(lock_timeout) as conn:
                moved = self.move(conn, row, "rollback")
                conn.commit()
                # One that is not on disk counts in the next round.
                return moved and flushed(conn)
        except DBAPIError as error:
            if passing(error):
                return False
            raise

    def settled(self) -> None:
        """Have on disk what is committed here: MySQL and MariaDB show commits to others before (see docs/proof.md).

        Raises LedgerError where it takes too long.
        """
        if self.database.dialect not in MYSQL:
            return
        mark = f"flush.{uuid4().hex}"
        row = {"id": mark, "state": "stored", "broker": "", "topic": "", "payload": "", "created_at": clock()}
        with self.database.short_transaction(5.0) as conn:
            conn.execute(insert(outbox).values(**row))
            conn.execute(delete(outbox).where(outbox.c.id == mark))
            conn.commit()
            if not flushed(conn):
                raise LedgerError(f"outbox in {self.database.describe()}: its commits are not on disk yet")

    def keep_handle(self, row: Stored, handle: str) -> None:
        """Note the handle of a message that was prepared again."""
        with self.database.engine.begin() as conn:
            conn.execute(update(outbox).where(outbox.c.id == row.id).values(handle=handle))

    def delete(self, message_id: str) -> None:
        """P7 (P4 of QoS 1): the broker has it for good."""
        with self.database.engine.begin() as conn:
            conn.execute(delete(outbox).where(outbox.c.id == message_id))

    def open_rows(self, broker: str, limit: int, older_than: timedelta, skip: int = 0) -> list[Stored]:
        """Rows of one broker, oldest first, but for the first `skip`."""
        query = select(*_COLUMNS).where(outbox.c.broker == broker).order_by(outbox.c.created_at, outbox.c.id)
        with self.database.engine.connect() as conn:
            if older_than:
                now: Any = (conn.execute(select(clock()))).scalar_one()
                query = query.where(outbox.c.created_at <= now - older_than)
            return [Stored(*row) for row in conn.execute(query.limit(limit).offset(skip))]


class OutboxEntry:
    """One message's row in the part of a ledger, for its local transaction (P4)."""

    def __init__(self, outbox: Outbox, row: Stored, merged: bool) -> None:
        self.database = outbox.database
        self._outbox, self._row, self._merged = outbox, row, merged

    def verified(self) -> None:
        self._outbox.verified()

    def begin(self, conn: Connection, handle: str, topic: str | None = None) -> None:
        """P4: the message will be committed, if and only if this transaction is. Raises Fenced."""
        self._outbox.durable(conn)
        if not self._merged:
            if not self._outbox.move(conn, self._row, "commit", handle):
                raise Fenced(f"recovery has ruled before that this transaction rolls back (message {self._row.id})")
            return
        values = {name: getattr(self._row, name) for name in Stored.__slots__}
        try:
            conn.execute(insert(outbox).values(**values | {"state": "commit", "handle": handle}, created_at=clock()))
        except IntegrityError as error:
            raise Fenced(f"message {self._row.id} is in the outbox already") from error

    def kept(self, conn: Connection, handles: Sequence[str]) -> dict[str, Json | None]:
        """The one message, where the transaction on `conn` still has its row; its payload, where that is another."""
        query = select(outbox.c.handle, outbox.c.payload).where(outbox.c.id == self._row.id, outbox.c.state == "commit")
        rows = conn.execute(query)
        return {handle: None if payload == self._row.payload else Json(payload) for handle, payload in rows}

    def set_payload(self, conn: Connection, handle: str, payload: str) -> None:
        """Keep the final payload."""
        conn.execute(update(outbox).where(outbox.c.id == self._row.id).values(payload=payload))


def _seconds(delay: Interval | None) -> str | None:
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    return delay if delay is None or isinstance(delay, str) else f"{delay!r} s"


def body(row: Stored) -> Json:
    """The payload as it is stored."""
    return Json(row.payload)
