"""Ledgers outside the broker's database for tests, which can go away and come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import mqpg
from mqpg.dsn import to_sqlalchemy

__all__ = ["Outside", "postgresql_ledger", "sqlite_ledger"]


@dataclass
class Outside:
    """A ledger, an engine on its database, and how to make that unreachable and reachable."""

    engine: sqlalchemy.Engine
    ledger: mqpg.Ledger
    disconnect: Callable[[], None]
    reconnect: Callable[[], None]

    @property
    def url(self) -> str:
        return self.engine.url.render_as_string(hide_password=False)

    def local_transaction(self, handle: str) -> sqlalchemy.Connection:
        """A connection inside an open local transaction that has written its ledger row."""
        connection = self.engine.connect()
        self.ledger.begin(connection, handle)
        return connection

    def commit(self, handle: str) -> None:
        with self.local_transaction(handle) as connection:
            connection.commit()


def sqlite_ledger(path: Path) -> Outside:
    away = path.with_suffix(".away")
    return _outside(f"sqlite:///{path}", lambda: path.rename(away), lambda: away.rename(path))


def postgresql_ledger(dsn: str, admin: psycopg.Connection[Any]) -> Outside:
    name = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))

    def disconnect() -> None:
        admin.execute(sql.SQL("alter database {} allow_connections false").format(name))
        admin.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
            [name.as_string().strip('"')],
        )

    def reconnect() -> None:
        admin.execute(sql.SQL("alter database {} allow_connections true").format(name))

    return _outside(to_sqlalchemy(dsn), disconnect, reconnect)


def _outside(url: str | sqlalchemy.URL, disconnect: Callable[[], None], reconnect: Callable[[], None]) -> Outside:
    # No pool: nothing stays open in a database that goes away.
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    ledger = mqpg.Ledger(engine)
    ledger.create()
    return Outside(engine, ledger, disconnect, reconnect)
