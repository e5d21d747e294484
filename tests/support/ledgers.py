"""Ledgers outside the broker's database, which tests can make unreachable and reachable."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import sqlalchemy
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import mqpg
from mqpg.connection.dsn import to_sqlalchemy
from tests.fixtures.mariadb import MariaDB

__all__ = ["Outside", "mariadb_ledger", "postgresql_ledger", "sqlite_ledger"]


@dataclass
class Outside:
    """A ledger, an engine on its database, and how to make that unreachable and reachable."""

    engine: sqlalchemy.Engine
    ledger: mqpg.Ledger
    disconnect: Callable[[], object]
    reconnect: Callable[[], object]

    @property
    def url(self) -> str:
        return self.engine.url.render_as_string(hide_password=False)

    def local_transaction(self, handle: str) -> sqlalchemy.Connection:
        """A connection inside an open local transaction that has written its ledger row."""
        connection = self.engine.connect()
        try:
            self.ledger.begin(connection, handle)
        except BaseException:
            connection.close()  # what stays open locks the table's definition
            raise
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


def mariadb_ledger(server: MariaDB, database: str) -> Outside:
    """A ledger in MariaDB with a user of its own, who can be locked out."""
    user = f"app_{database}"
    server.execute(f"create user {user}@'127.0.0.1'")
    server.execute(f"grant all on {database}.* to {user}@'127.0.0.1'")

    def disconnect() -> None:
        server.execute(f"alter user {user}@'127.0.0.1' account lock")
        for (number,) in server.execute(f"select id from information_schema.processlist where user = '{user}'"):
            with suppress(pymysql.err.OperationalError):  # it ended by itself
                server.execute(f"kill {number}")

    def reconnect() -> None:
        server.execute(f"alter user {user}@'127.0.0.1' account unlock")

    return _outside(server.url(database, user), disconnect, reconnect)


def _outside(url: str | sqlalchemy.URL, disconnect: Callable[[], object], reconnect: Callable[[], object]) -> Outside:
    # No pool: nothing stays open in a database that becomes unreachable.
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    ledger = mqpg.Ledger(engine)
    ledger.create()
    return Outside(engine, ledger, disconnect, reconnect)
