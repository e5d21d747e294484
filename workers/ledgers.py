"""Opening ledgers for check-backs, and telling an unreachable one from one that has no verdict."""

from __future__ import annotations

import os

import sqlalchemy
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from mqpg import Ledger, errors
from mqpg.dsn import to_sqlalchemy

__all__ = ["Unreachable", "open_ledger", "require_reachable"]

_PATIENCE = 5  # seconds for a connection


class Unreachable(Exception):
    """The ledger's database does not answer."""


def open_ledger(url: str) -> tuple[Engine, Ledger]:
    """An engine for one thread, and the ledger in it. Connects later. Raises mqpg.ConfigurationError."""
    target = to_sqlalchemy(url)
    options: dict[str, object] = {}
    if target.get_driver_name() in {"psycopg", "psycopg2"} and "connect_timeout" not in target.query:
        options["connect_timeout"] = _PATIENCE
    try:
        engine = sqlalchemy.create_engine(
            target, pool_size=1, max_overflow=2, pool_pre_ping=True, pool_recycle=300, connect_args=options
        )
    except (SQLAlchemyError, ImportError) as error:
        raise errors.ConfigurationError(f"ledger {target.render_as_string()}: {error}") from error
    return engine, Ledger(engine)


def require_reachable(engine: Engine) -> None:
    """Raise Unreachable unless the database answers."""
    path = engine.url.database or ":memory:"
    # SQLite would make the file, and no producer ever wrote into it.
    if engine.dialect.name == "sqlite" and not path.startswith((":", "file:")) and not os.path.exists(path):
        raise Unreachable(f"no such file: {path}")
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.select(1))
    except Exception as error:  # whatever the driver raises
        raise Unreachable(str(errors.translate(error))) from error
