"""A broker with two applications, for attacks of one on the other."""

import uuid
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

__all__ = ["Company", "Connection", "refusal", "value"]

Connection = psycopg.Connection[Any]


@dataclass
class Company:
    """A database with the topics `mine` and `theirs`; `victim` uses the second one.

    `theirs` holds a delivered message with a key and headers, and an undecided half message.
    """

    dsn: str
    boss: Connection
    victim: str
    message_id: int
    handle: str
    receipt: str
    roles: list[str] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)

    def role(self, options: str = "", name: str | None = None) -> str:
        """A new role that can log in."""
        role = name or f"attack_{uuid.uuid4().hex[:8]}"
        self.boss.execute(sql.SQL("create role {} login password 'x' " + options).format(sql.Identifier(role)))
        self.roles.append(role)
        return role

    def session(self, role: str, **options: str) -> Connection:
        """An autocommit connection of that role."""
        dsn = make_conninfo(self.dsn, user=role, password="x", **options)
        connection = psycopg.connect(dsn, autocommit=True)
        self.connections.append(connection)
        return connection

    def application(self) -> str:
        """A role that may send to `mine`, produce for `mine` and receive `mine` for the group `mine`."""
        role = self.role()
        self.boss.execute(
            "select mqpg.grant_send('mine', %(r)s), mqpg.grant_produce('mine', %(r)s), "
            "mqpg.grant_receive('mine', 'mine', %(r)s)",
            {"r": role},
        )
        return role


def value(connection: Connection, query: str, *values: object) -> Any:
    row = connection.execute(query.encode(), values or None).fetchone()
    return row[0] if row else None


def refusal(connection: Connection, query: str, *values: object) -> psycopg.Error:
    """The error that a statement ends with."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(query.encode(), values or None).fetchall()
    return caught.value
