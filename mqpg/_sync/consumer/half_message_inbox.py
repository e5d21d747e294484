# Generated from mqpg/_async/consumer/half_message_inbox.py by tools/async_to_sync.py: change that file.
"""An inbox for half messages of any queue with acknowledgements (protocol T4 over another broker).

The steps are those of a relay topic (S3, S7), but the position is the queue's (S4, S8): it learns by
an acknowledgement after the local commit. What was not acknowledged comes again, PREPARE and COMMIT
alike, so the inbox remembers what was decided.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from sqlalchemy import URL

from mqpg._sync._acompat import Connection, DriverConnection, Engine, PgConnection, ScopedSession, Session
from mqpg._sync.closing import Closing
from mqpg._sync.stores.create_tables import ensure_tables
from mqpg._sync.stores.database import UserDatabase
from mqpg._sync.stores.prepared import PreparedMessages
from mqpg.user_tables.tables import prepared
from mqpg.values.arguments import encode
from mqpg.values.errors import InvalidArgument, InvalidName, shown
from mqpg.values.messages import decode

__all__ = ["Inbox"]

logger = logging.getLogger("mqpg")

_LONGEST_NAME, _LONGEST_ID = 127, 200
_FORGET_EVERY = 3600.0  # seconds
# No topic has this name, so the rows are apart from those of relay topics.
_NO_TOPIC = ""

Caller = PgConnection | Connection | Session | ScopedSession[Session]


class Inbox(Closing):
    """Holds half messages of any queue until their COMMIT, in the database of their effects.

    Hand each message to it in the transaction of the effect, and acknowledge the message after that
    transaction has committed. Threads may share it.

    Args:
        database: The SQLAlchemy URL or engine of the database in which table mqpg_prepared lives.
        name: The name of the consumer, at most 127 ASCII characters. Inboxes of one name in one
            database are one inbox.
        remember: How long a decided id is remembered. Within this time after its decision no
            redelivery takes effect again; 7 days by default.
        schema: The schema of the table (MySQL: the database). None: where the connection looks for it.
        create_tables: False lets `create_inbox` raise LedgerError where the table is missing, instead
            of creating it.

    Raises:
        InvalidName: `name` is no such name.
        InvalidArgument: `schema` is no name.
    """

    def __init__(
        self,
        database: str | URL | Engine,
        *,
        name: str,
        remember: timedelta = timedelta(days=7),
        schema: str | None = None,
        create_tables: bool = True,
    ) -> None:
        if not _is_short_ascii(name, _LONGEST_NAME):
            raise InvalidName(
                f"name must have 1 to {_LONGEST_NAME} ASCII characters and no blank at its end, not {shown(name)}"
            )
        self.name = name
        self._remember = remember
        self._database = UserDatabase(database, schema, create_tables)
        self._prepared = PreparedMessages(name, _NO_TOPIC, schema, remembers=True)
        # What an outage left unacknowledged comes first, so nothing is forgotten before that.
        self._forget_at = time.monotonic() + _FORGET_EVERY

    def close(self) -> None:
        """Close the connections to the database, unless the engine is the caller's."""
        self._database.close()

    def create_inbox(self) -> None:
        """Create table mqpg_prepared if it is missing, and verify it.

        Raises:
            LedgerError: The table is not as it must be.
            ConnectionFailed: The database does not answer.
        """
        ensure_tables(self._database, prepared)

    def prepare(self, conn: Caller, id: str, body: Any) -> None:
        """Store a PREPARE (S3). The last one of an id counts; after a decision it is dropped.

        Args:
            conn: A connection of SQLAlchemy or psycopg, or a session, in the caller's transaction.
            id: The id of the half message, at most 200 ASCII characters.
            body: Any object that JSON can hold except None, or mqpg.Json.

        Raises:
            InvalidArgument: `id` or `body` is no such value, or `conn` is in autocommit mode.
        """
        raw = encode(body, "body")
        if raw is None or raw == "null":
            raise InvalidArgument("body must not be None")
        self._prepared.store(_connection(conn), _id(id), raw)

    def commit(self, conn: Caller, id: str) -> Any:
        """Take out the PREPARE of an id, whose effect belongs to this transaction (S7).

        Args:
            conn: A connection of SQLAlchemy or psycopg, or a session, in the caller's transaction.
            id: The id of the half message.

        Returns:
            The body that takes effect now. None: there is no PREPARE, because it was decided before
            or never came.

        Raises:
            InvalidArgument: `id` is no id, or `conn` is in autocommit mode.
            Undecodable: The body is JSON that Python does not decode.
        """
        known = _connection(conn)
        raw = self._prepared.take(known, _id(id))
        self._forget_sometimes(known)
        if raw is None:
            logger.info("inbox %s: COMMIT of %s without a PREPARE is ignored", self.name, id)
            return None
        return decode(raw, "body")

    def rollback(self, conn: Caller, id: str) -> None:
        """Drop the PREPARE of an id, and any that comes later.

        Args:
            conn: A connection of SQLAlchemy or psycopg, or a session, in the caller's transaction.
            id: The id of the half message.

        Raises:
            InvalidArgument: `id` is no id, or `conn` is in autocommit mode.
        """
        known = _connection(conn)
        self._prepared.drop(known, _id(id))
        self._forget_sometimes(known)

    def forget(self, conn: Caller) -> int:
        """Delete what was decided longer ago than `remember`.

        A process that runs for longer than an hour does this itself, once an hour.

        Args:
            conn: A connection of SQLAlchemy or psycopg, or a session.

        Returns:
            How many ids were forgotten.

        Raises:
            InvalidArgument: `conn` is no such connection.
        """
        return self._prepared.forget(_connection(conn), self._remember)

    def _forget_sometimes(self, conn: PgConnection | Connection) -> None:
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + _FORGET_EVERY
            self.forget(conn)


def _connection(conn: Caller) -> PgConnection | Connection:
    if isinstance(conn, ScopedSession):
        conn = conn()
    if isinstance(conn, Session):
        return conn.connection()
    if isinstance(conn, (DriverConnection, Connection)):
        return conn
    raise InvalidArgument(f"conn must be a connection of SQLAlchemy or psycopg, or a session, not {shown(conn)}")


def _id(value: str) -> str:
    if _is_short_ascii(value, _LONGEST_ID):
        return value
    raise InvalidArgument(
        f"id must have 1 to {_LONGEST_ID} ASCII characters and no blank at its end, not {shown(value)}"
    )


def _is_short_ascii(value: object, longest: int) -> bool:
    if not isinstance(value, str) or not value.isascii() or "\0" in value:
        return False
    # MySQL compares keys without the blanks at their end.
    return 0 < len(value) <= longest and not value.endswith(" ")
