"""A broker with two applications, each with its own topic, groups and role."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.databases import Databases
from tests.support.company import Company, value


@pytest.fixture(scope="module")
def company(databases: Databases, template: str) -> Iterator[Company]:
    with databases.lent(template) as dsn:
        boss = psycopg.connect(dsn, autocommit=True)
        for topic in ("mine", "theirs"):
            boss.execute("select mqpg.create_topic(%s, queues => 1)", (topic,))
            boss.execute("select mqpg.create_producer_group(%s)", (topic,))
            boss.execute("select mqpg.subscribe(%s, %s)", (topic, topic))
        boss.execute("select mqpg.subscribe('other', 'mine')")
        message_id = value(
            boss, """select mqpg.send('theirs', '{"secret": 1}'::text, 'k', 'tag', '{"token": "s3cret"}')"""
        )
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
