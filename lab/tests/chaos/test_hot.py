"""Updates and deletes of hot tables are counted, and the inserts that take themselves back are not."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

import mqpg
from lab.chaos.caller import MarkedSource
from lab.chaos.hot import HOT, changes, watch
from mqpg import migrate
from tests.fixtures.databases import OwnServer
from tests.support.broker import HOT_TABLES
from tests.support.servers import restart
from tests.support.waiting import eventually

# All keys are one in this index. The session that asks for it waits before it writes the entry of
# its row, when it has seen no other row of that key and has written its own one.
PAUSE = """
create function public.pause(text) returns text language plpgsql immutable as $$
begin
    if current_setting('hot.pause', true) = 'on' then
        perform set_config('hot.calls', (current_setting('hot.calls')::int + 1)::text, false);
        if current_setting('hot.calls') = '2' then
            perform pg_advisory_lock(77), pg_advisory_unlock(77);
        end if;
    end if;
    return 'same';
end
$$;
create table public.once (id text primary key);
"""
INSERT = "insert into mqpg.hot_once values (%s) on conflict do nothing"
DELETED = "select n_tup_del from pg_stat_user_tables where relname = 'hot_once'"
TABLES = [f"mqpg.{table}" for table in HOT]
PARTITIONS = "select inhrelid::regclass::text from pg_inherits where inhparent = any(%s::regclass[])"
UNWATCHED = (
    PARTITIONS
    + """
    and not exists (select from pg_trigger t where t.tgrelid = inhrelid and t.tgname = 'hot_change')
"""
)
WAITS = "select from pg_locks where locktype = 'advisory' and objid = 77 and not granted"


def test_the_hot_tables_are_those_of_the_tests() -> None:
    assert set(HOT) == set(HOT_TABLES)


@pytest.mark.parametrize("statement", ["update mqpg.tick set messages = 0", "delete from mqpg.tick"])
def test_a_change_is_counted_even_if_it_is_rolled_back(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        watch(conn)
        assert changes(conn) == 0
        with conn.transaction(force_rollback=True):
            conn.execute(statement.encode())
        assert changes(conn) == 1


@pytest.mark.chaos
def test_a_crash_takes_no_count_back(own_server: OwnServer) -> None:
    dsn = own_server.dsn
    with psycopg.connect(dsn, autocommit=True) as conn:
        watch(conn)
    restart(own_server.server)
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert changes(conn) == 0
        conn.execute("update mqpg.tick set messages = 0")
    restart(own_server.server)
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert changes(conn) >= 1


def test_an_insert_that_takes_its_row_back_is_a_deletion_in_the_statistics_only(dsn: str) -> None:
    def insert(conn: psycopg.Connection[Any]) -> None:
        conn.execute("select set_config('hot.pause', 'on', false), set_config('hot.calls', '0', false)")
        conn.execute(INSERT, ["late"])

    with (
        psycopg.connect(dsn, autocommit=True) as conn,
        psycopg.connect(dsn, autocommit=True) as other,
        psycopg.connect(dsn, autocommit=True) as gate,
    ):
        conn.execute(PAUSE.replace("public.once", "mqpg.hot_once"))
        conn.execute("create unique index on mqpg.hot_once (public.pause(id))")
        watch(conn)
        conn.execute(
            "create trigger hot_change before update or delete on mqpg.hot_once"
            " for each row execute function public.note_hot_change()"
        )
        gate.execute("select pg_advisory_lock(77)")
        late = threading.Thread(target=insert, args=(other,))
        late.start()
        eventually(lambda: bool(gate.execute(WAITS).fetchall()))
        conn.execute(INSERT, ["early"])
        gate.execute("select pg_advisory_unlock(77)")
        late.join()
        assert conn.execute("select id from mqpg.hot_once").fetchall() == [("early",)]
        eventually(lambda: conn.execute(DELETED).fetchone() == (1,))
        assert changes(conn) == 0


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
