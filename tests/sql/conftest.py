"""Fixtures of the SQL tests: a broker per test, mostly on its module's database, emptied in between.

To empty a database takes a tenth of the time to copy one. Tests that change functions or roll segments have
a database of their own: they override `broker` by `own_broker`.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.sql.harness import Broker, Session

_KEPT = ("broker", "segment", "schema_version", "alembic_version")  # what an installation is born with
_TABLES = """
select string_agg(format('mqpg.%%I', c.relname), ', ')
from pg_class as c
where c.relnamespace = 'mqpg'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname <> all (%s)
"""
_BORN = """
create table if not exists public.born_tick as table mqpg.tick;
create table if not exists public.born_half_tick as table mqpg.half_tick;
create table if not exists public.born_settings as table mqpg.settings;
"""
_EMPTY = """
do $$
declare
    v_table regclass;
begin
    for v_table in
        select c.oid from pg_class as c
        where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname not like 'born\\_%'
    loop
        execute format('drop table %s', v_table);
    end loop;
end $$;
drop function if exists public.shop_says;
alter sequence mqpg.batch_id restart;
insert into mqpg.tick select * from public.born_tick;
insert into mqpg.half_tick select * from public.born_half_tick;
insert into mqpg.settings select * from public.born_settings;
"""


def _empty(dsn: str) -> None:
    """Bring a database back to the state of a new installation; its xids and partitions go on."""
    with psycopg.connect(dsn) as connection:
        connection.execute(_BORN)
        row = connection.execute(_TABLES, [list(_KEPT)]).fetchone()
        assert row is not None
        connection.execute(f"truncate {row[0]} restart identity cascade")
        connection.execute("truncate pgmq.q_mqpg_oplog, pgmq.a_mqpg_oplog")
        connection.execute(_EMPTY)


@pytest.fixture(scope="module")
def module_dsn(server: Server, databases: Databases, template: str) -> Iterator[str]:
    """DSN of a migrated database that the tests of one module share."""
    name = databases.create(template)
    yield server.dsn(name)
    databases.drop(name)


@pytest.fixture
def shared_broker(module_dsn: str) -> Iterator[Broker]:
    """A broker on the module's database, which is emptied for it."""
    _empty(module_dsn)
    broker = Broker(module_dsn)
    yield broker
    broker.close()


@pytest.fixture
def own_broker(dsn: str) -> Iterator[Broker]:
    """A broker on a database of the test's own, for tests that change the functions in it."""
    broker = Broker(dsn)
    yield broker
    broker.close()


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    return shared_broker


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A session on a broker with topic `t` (4 queues), topic `one` (1 queue), groups `g` and `pg`."""
    session = broker.session()
    session.call("create_topic", "t", queues=4)
    session.call("create_topic", "one", queues=1)
    session.call("subscribe", "g", "t")
    session.call("subscribe", "g", "one")
    session.call("create_producer_group", "pg")
    return session
