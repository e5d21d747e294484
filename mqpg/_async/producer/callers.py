"""Connections and sessions of SQLAlchemy that a caller lends to a producer."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection as SyncConnection

from mqpg._async._acompat import Connection, ScopedSession, Session
from mqpg.values.errors import InvalidArgument

__all__ = ["LocalCaller", "require_connection", "require_idle"]

LocalCaller = Connection | Session | ScopedSession[Any]


def require_connection(conn: LocalCaller) -> Connection | Session:
    """The connection or session that a caller gave. Raises InvalidArgument if it is neither."""
    if isinstance(conn, ScopedSession):
        conn = conn()
    if not isinstance(conn, (Connection, Session)):
        raise InvalidArgument(f"conn must be a SQLAlchemy Connection or Session, not {type(conn).__name__}")
    return conn


def require_idle(conn: LocalCaller) -> Connection | Session:
    """The same, outside of a transaction. Raises InvalidArgument."""
    known = require_connection(conn)
    # A session that takes part in the transaction of a connection does not commit it.
    bind = getattr(getattr(known, "sync_session", known), "bind", None)
    if known.in_transaction() or (isinstance(bind, SyncConnection) and bind.in_transaction()):
        raise InvalidArgument(
            "conn is in a transaction: the ledger row must be the first statement, after the half message is stored"
        )
    return known
