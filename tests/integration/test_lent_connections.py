"""A connection is looked at when it comes back, and no call waits for what only its own caller holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Connection, text

import mqpg
from mqpg import errors
from mqpg.connection.statements import statement
from tests.support.consuming import running, sent_batch
from tests.support.waiting import eventually

# What a session is like: settings, role, and what may be left behind in it.
_SESSION = """
select jsonb_build_object(
    'settings', (select jsonb_object_agg(name, setting) from pg_settings
                 where name !~ '^(transaction_|plpgsql[.])'),
    'own', coalesce(current_setting('app.tenant', true), ''), 'user', current_user, 'session user', session_user,
    'channels', (select count(*) from pg_listening_channels()),
    'locks', (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
    'prepared', (select count(*) from pg_prepared_statements where from_sql),
    'cursors', (select count(*) from pg_cursors where is_holdable),
    'tables', (select count(*) from pg_class where relnamespace = pg_my_temp_schema() and relkind = 'r'))
"""
_READ = statement("select 1 as one")
_LEFT_BEHIND = [
    "set statement_timeout = '1h'",
    "set default_transaction_read_only = on",
    "set session characteristics as transaction isolation level serializable",
    "set datestyle = 'German, DMY'",
    "set intervalstyle = 'sql_standard'",
    "set client_encoding = 'LATIN1'",
    "set standard_conforming_strings = off",
    "set search_path = pg_temp",
    "set app.tenant = '7'",
    "select set_config('app.tenant', '7', false), set_config('lock_timeout', '1ms', false)",
    "do $$ begin perform set_config('work_mem', '1MB', false); end $$",
    "reset all",
    "set role mqpg_test_tenant",
    "set session authorization mqpg_test_tenant",
    "listen something",
    "select pg_advisory_lock(7), pg_advisory_lock_shared(8)",
    "create temp table left_behind (id int)",
    "prepare left_behind as select 1",
    "declare left_behind cursor with hold for select 1",
    "deallocate all",
]


@pytest.fixture
def tenant(dsn: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as conn:
        if conn.execute("select from pg_roles where rolname = 'mqpg_test_tenant'").fetchone() is None:
            conn.execute("create role mqpg_test_tenant")
    return "mqpg_test_tenant"


def session(mq: mqpg.Client) -> Any:
    return mq._rows(statement(_SESSION), {})[0][0]


@pytest.mark.parametrize("left", _LEFT_BEHIND)
def test_what_a_block_leaves_in_its_session_is_gone(
    dsn: str, orders: str, tenant: str, left: str, server_version: int
) -> None:
    if "standard_conforming_strings" in left and server_version >= 190000:
        pytest.skip("it cannot be switched off")
    with mqpg.connect(dsn, pool_max_size=1) as mq:
        for _ in range(7):  # psycopg has prepared it
            mq.send(orders, 1)
        before = session(mq)
        for ends in (None, ValueError):
            with pytest.raises(ValueError) if ends else _nothing(), mq.transaction() as conn:
                conn.execute(left.encode())
                if left == "reset all":
                    conn.execute("set local role none")
                if ends:
                    raise ends
            after = session(mq)
            changed = {
                name: after["settings"][name]
                for name, was in before["settings"].items()
                if after["settings"][name] != was
            }
            assert changed == {}
            assert after == before
            mq.send_batch(orders, [{"price": "5 \N{EURO SIGN}"}], keys=[None])


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *raised: object) -> None: ...


@pytest.mark.parametrize(
    "left", ["set role mqpg_test_tenant", "set app.tenant = '7'", "prepare left_behind as select 1"]
)
def test_what_a_handler_leaves_on_a_connection_of_sqlalchemy(dsn: str, orders: str, tenant: str, left: str) -> None:
    seen: list[Any] = []

    @mqpg.consumer(orders, group="g", max_messages=1)
    def handle(message: mqpg.Message, conn: Connection) -> None:
        found: Any = conn.execute(text(_SESSION)).scalar()
        seen.append([found[name] for name in ("own", "prepared", "user", "channels", "tables")])
        if message.payload == 0:
            conn.exec_driver_sql(left)

    with mqpg.connect(dsn) as mq:
        handle.step(mq)
        for number in range(3):
            mq.send(orders, number)
        mq.append()
        while handle.step(mq):
            pass
        handle.close()
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]


def test_what_a_block_sets_on_the_object_is_gone(dsn: str) -> None:
    with mqpg.connect(dsn, pool_max_size=1) as mq:
        with mq.transaction() as conn:
            conn.row_factory = dict_row
            conn.prepare_threshold = 0
            assert conn.execute("select 1 as one").fetchone() == {"one": 1}
        with mq.transaction() as conn:
            assert conn.execute("select 1").fetchone() == (1,)
            assert conn.prepare_threshold == 5


def test_what_a_block_listens_with_is_gone(dsn: str) -> None:
    said: list[object] = []
    with mqpg.connect(dsn, pool_max_size=1) as mq:
        with mq.transaction() as conn:
            conn.add_notice_handler(said.append)
            conn.add_notify_handler(said.append)
        with mq.transaction() as conn:
            conn.row_factory = dict_row  # without a statement
        with mq.transaction() as conn:
            assert conn.execute("select 1").fetchone() == (1,)
            conn.execute("do $$ begin raise notice 'for this block'; end $$")
            conn.execute("listen this_block")
            conn.execute("notify this_block")
        with mq.transaction() as conn:
            conn.execute("select 1")
    assert said == []


def test_calls_alone_need_no_look(dsn: str, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with mqpg.connect(dsn) as mq:
        monkeypatch.setattr(mq, "_look_at", None)
        with mq.transaction() as conn:
            mq.send(orders, 1, conn=conn)
        with pytest.raises(errors.UnknownTopic):
            mq.send("nothing", 1)
        mq.send(orders, 2)


def _fill(mq: mqpg.Client, connections: int) -> None:
    """Make the pool open so many connections."""
    barrier = threading.Barrier(connections)

    def hold(_: int) -> None:
        with mq.transaction():
            barrier.wait(20)

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(hold, range(connections)))


def _in_a_block(mq: mqpg.Client) -> None:
    with mq.transaction() as conn:
        mq.send("orders", 1, conn=conn)


def _with_an_error_of_its_own(mq: mqpg.Client) -> None:
    try:
        _in_a_block(mq)
    except errors.DatabaseError:
        raise psycopg.Error("mine") from None


@pytest.mark.parametrize("call", [lambda mq: mq.send("orders", 1), _in_a_block, _with_an_error_of_its_own])
def test_connections_to_a_server_that_only_reads_are_given_up(
    dsn: str, orders: str, call: Callable[[mqpg.Client], object]
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        with mqpg.connect(dsn, pool_max_size=3) as mq:
            _fill(mq, 3)
            with pytest.raises((errors.DatabaseError, psycopg.Error)):
                call(mq)
            with admin.transaction():
                admin.execute("set transaction read write")
                admin.execute(f"alter database {name} reset default_transaction_read_only".encode())
            time.sleep(1.1)
            for _ in range(6):
                call(mq)


def test_a_connection_whose_plan_is_stale_is_given_up(dsn: str) -> None:
    read = statement("select * from public.changing")
    with mqpg.connect(dsn, pool_max_size=1) as mq, psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("create table changing (id int)")
        for _ in range(8):
            mq._rows(read, {})
        admin.execute("alter table changing add more text")
        with pytest.raises(errors.DatabaseError, match="cached plan"):
            mq._rows(read, {})
        assert mq._rows(read, {}) == []


def test_a_connection_that_the_block_has_closed_is_replaced(dsn: str, orders: str) -> None:
    with mqpg.connect(dsn, pool_max_size=1) as mq:
        with pytest.raises(errors.ConnectionFailed), mq.transaction() as conn:
            conn.close()
        mq.send(orders, 1)


# calls that can only wait for their own caller


@pytest.mark.parametrize(
    "call",
    [
        lambda mq: mq.send("orders", 1),
        lambda mq: mq.append(),
        lambda mq: mq.receive("g", "orders", wait=0.2),
        lambda mq: mq.info(),
        _in_a_block,
    ],
)
def test_a_call_within_a_block_has_its_connection(dsn: str, orders: str, call: Callable[[mqpg.Client], object]) -> None:
    with mqpg.connect(dsn, pool_max_size=1, pool_timeout=60) as mq:
        mq.subscribe("g", orders)
        began = time.monotonic()
        with mq.transaction() as conn:
            conn.execute("select 1")
            call(mq)
            thread = threading.Thread(target=lambda: mq.send(orders, 2))  # of the block, which waits for it
            thread.start()
            thread.join(45)
            assert not thread.is_alive()
            call(mq)
        assert time.monotonic() - began < 45


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_handlers_that_send_need_no_further_connection(dsn: str, orders: str, concurrency: int, mode: Any) -> None:
    attempts: list[int] = []
    with mqpg.connect(dsn, pool_max_size=concurrency, pool_timeout=60) as mq:
        mq.create_topic("next", queues=1)

        @mqpg.consumer(orders, group="g", concurrency=concurrency, max_messages=1, mode=mode)
        def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
            time.sleep(0.1)
            mq.send("next", message.payload)
            with mq.transaction() as inner:
                mq.send("next", message.payload, conn=inner)
            attempts.append(message.attempt)

        handle.step(mq)
        sent_batch(mq, orders, list(range(6)))
        with running(handle, mq):
            eventually(lambda: len(attempts) >= 6)
        assert attempts == [1] * 6
        assert mq.append() == 12
