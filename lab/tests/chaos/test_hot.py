"""Updates and deletes of hot tables are counted, also in tables that are made later."""

from __future__ import annotations

import psycopg
import pytest

import mqpg
from lab.chaos.hot import changes, watch
from lab.chaos.interruption import MarkedSource
from mqpg import migrate
from tests.fixtures.databases import OwnServer
from tests.support.broker import HOT_TABLES
from tests.support.servers import restart

TABLES = [f"mqpg.{table}" for table in HOT_TABLES]
PARTITIONS = "select inhrelid::regclass::text from pg_inherits where inhparent = any(%s::regclass[])"
UNWATCHED = (
    PARTITIONS
    + """
    and not exists (select from pg_trigger t where t.tgrelid = inhrelid and t.tgname = 'hot_change')
"""
)


@pytest.mark.chaos
def test_a_change_is_counted_even_if_it_is_rolled_back_and_after_a_crash(own_server: OwnServer) -> None:
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        watch(conn)
    restart(own_server.server)
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        assert changes(conn) == 0
        with conn.transaction(force_rollback=True):
            conn.execute("update mqpg.tick set messages = 0")
        assert changes(conn) == 1
        conn.execute("update mqpg.tick set messages = 0")
    restart(own_server.server)
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        assert changes(conn) >= 1


def test_new_segments_and_an_upgrade_leave_nothing_out(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn, mqpg.connect(dsn) as mq:
        watch(conn)
        before = set(conn.execute(PARTITIONS, [TABLES]).fetchall())
        conn.execute("update mqpg.settings set value = '0 s' where name in ('segment_age', 'cursor_slot_age')")
        mq.create_topic("orders")
        mq.subscribe("billing", "orders")
        mq.send("orders", {})
        mq.append()
        for _ in range(10):
            mq.keep()
        migrate.upgrade(dsn, source=MarkedSource("hot"))
        migrate.upgrade(dsn)
        assert set(conn.execute(PARTITIONS, [TABLES]).fetchall()) - before
        assert conn.execute(UNWATCHED, [TABLES]).fetchall() == []
        assert changes(conn) == 0
        mq.send("orders", {})
        conn.execute("delete from mqpg.commit_log")
        assert changes(conn) > 0
