"""A broker with two applications, each with its own topic, groups and role."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.fixtures.databases import Databases
from tests.fixtures.server import Server

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


@pytest.fixture(scope="module")
def company(server: Server, databases: Databases, template: str) -> Iterator[Company]:
    name = databases.create(template)
    dsn = server.dsn(name)
    boss = psycopg.connect(dsn, autocommit=True)
    for topic in ("mine", "theirs"):
        boss.execute("select mqpg.create_topic(%s, queues => 1)", (topic,))
        boss.execute("select mqpg.create_producer_group(%s)", (topic,))
        boss.execute("select mqpg.subscribe(%s, %s)", (topic, topic))
    boss.execute("select mqpg.subscribe('other', 'mine')")
    message_id = value(boss, """select mqpg.send('theirs', '{"secret": 1}'::text, 'k', 'tag', '{"token": "s3cret"}')""")
    handle = value(boss, "select mqpg.prepare('theirs', '2'::text, 'theirs', key => 'k')")
    boss.execute("select mqpg.append()")
    receipt = value(boss, "select receipt from mqpg.receive('theirs', 'theirs', lease => '1 hour')")
    made = Company(dsn, boss, "", message_id, handle, receipt)
    made.victim = made.role()
    boss.execute(
        "select mqpg.grant_send('theirs', %(r)s), mqpg.grant_produce('theirs', %(r)s), "
        "mqpg.grant_receive('theirs', 'theirs', %(r)s)",
        {"r": made.victim},
    )
    yield made
    for connection in made.connections:
        connection.close()
    for role in made.roles:
        if value(boss, "select true from pg_roles where rolname = %s", role):
            boss.execute(sql.SQL("drop owned by {0} cascade; drop role {0}").format(sql.Identifier(role)))
    boss.close()
    databases.drop(name)
