"""Nothing that a caller puts into the search_path runs inside mqpg, whose functions run as the owner."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.roles import Roles
from tests.support.shadows import plant

Connection = psycopg.Connection[Any]

# The second is the path that a role has by default; the first names every schema before pg_catalog.
PATHS = ["pg_temp, planted, public, mqpg, pg_catalog", '"$user", public, planted']

CALLS = [
    "select mqpg.create_topic('orders', queues => 2)",
    "select mqpg.create_topic('relayed', kind => 'relay')",
    "select mqpg.create_producer_group('shop', check_after => interval '10 ms')",
    "select mqpg.subscribe('g', 'orders', retry_delay => '0 s', max_attempts => 2)",
    "select mqpg.subscribe('chosen', 'orders', 'shared', filter => '$.id > 1')",
    "select mqpg.subscribe('all', 'orders', 'broadcast')",
    "select mqpg.send('orders', '{\"id\": 1}'::text, key => 'k', tag => 't', headers => '{\"h\": 1}')",
    "select mqpg.send('orders', '{\"id\": 2}'::jsonb, dedup_id => 'one')",
    "select mqpg.send('orders', '3'::json, delay => interval '1 ms')",
    "select mqpg.recall(mqpg.send('orders', '4'::json, delay => interval '1 hour'))",
    "select mqpg.send_batch('orders', array['1', '2', '3'], keys => array['k', null, 'l'])",
    "select mqpg.append()",
    "select * from mqpg.receive('all', 'orders', consumer => 'me')",
    "select * from mqpg.receive('chosen', 'orders')",
    "select mqpg.nack(r.receipt, pg_catalog.array_agg(r.message_id), 'no') from mqpg.receive('g', 'orders') r group by r.receipt",
    "select mqpg.append()",
    "select mqpg.ack(r.receipt) from mqpg.receive('g', 'orders', 1) r group by r.receipt",
    "select mqpg.extend(r.receipt, '1 min') from mqpg.receive('g', 'orders', 1) r group by r.receipt",
    "select mqpg.commit(mqpg.prepare('orders', '5'::text, 'shop'))",
    "select mqpg.commit(mqpg.prepare('relayed', '5'::jsonb, 'shop'), '6'::jsonb)",
    "select mqpg.rollback(mqpg.prepare('orders', '5'::json, 'shop', key => 'k', dedup_id => 'two'))",
    "select * from mqpg.commit_batch(array(select mqpg.prepare_batch('orders', array['7', '8'], 'shop')))",
    "select * from mqpg.rollback_batch(array(select mqpg.prepare_batch('orders', array['7', '8'], 'shop')))",
    "select mqpg.local_begin(mqpg.prepare('orders', '9'::text, 'shop'))",
    "select mqpg.prepare('orders', '9'::text, 'shop', check_after => '10 ms')",
    "select mqpg.append()",
    "select mqpg.compensate()",
    "call mqpg.work(0)",
    "select * from mqpg.due_checks('shop')",
    "select * from mqpg.half_states(array['nothing'])",
    "select * from mqpg.dead_letters('g', 'orders')",
    "select mqpg.redrive('g', 'orders')",
    "select mqpg.discard_dead_letters('g', 'orders')",
    "select * from mqpg.fetch('orders', 0, 0)",
    "select * from mqpg.ready('g')",
    "select * from mqpg.why('g', 'orders')",
    "select * from mqpg.find_by_key('orders', 'k')",
    "select mqpg.seek('g', 'orders', 'earliest')",
    "select mqpg.alter_topic('orders', retention => '1 minute')",
    "update mqpg.settings set value = '0 s' where name operator(pg_catalog.=) 'segment_age'",
    "update mqpg.settings set value = '2 hours' where name operator(pg_catalog.=) 'dedup_window'",
    "select * from mqpg.keep()",
    "select mqpg.append()",
    "select * from mqpg.keep()",
    *(
        f"select * from mqpg.{view}"
        for view in (
            "blocked_segments",
            "half_expired",
            "half_parked",
            "half_pending",
            "losses",
            "orphans",
            "pins",
            "queue_depth",
            "subscription_lag",
            "topics",
            "worker_status",
        )
    ),
    "select mqpg.purge_topic('orders')",
    "select mqpg.unsubscribe('g', 'orders')",
    "select mqpg.drop_topic('orders', force => true)",
]


@pytest.mark.parametrize("path", PATHS)
def test_what_a_caller_planted_never_runs(connect: Callable[..., Connection], path: str) -> None:
    planter, caller = connect(), connect()
    planter.execute("create schema planted")
    assert plant(planter, "planted") > 500
    caller.execute("create temp table topic (like mqpg.topic)")
    caller.execute("create temp table commit_log (like mqpg.commit_log)")
    caller.execute("create temp table pg_proc (like pg_catalog.pg_proc)")
    caller.execute("create temp table pg_inherits (like pg_catalog.pg_inherits)")
    caller.execute("create type pg_temp.xid8 as (x int)")
    caller.execute("create type pg_temp.claim as (x int)")
    caller.execute("select pg_catalog.set_config('search_path', %s, false)", (path,))
    failed = []
    for call in CALLS:
        try:
            caller.execute(call.encode())
        except psycopg.Error as error:
            failed.append((call, str(error)))
    assert not failed, failed


@pytest.mark.parametrize("kind", ["session", "set role", "set local role", "session authorization", "definer"])
def test_the_caller_is_the_role_that_calls(db: Connection, roles: Roles, kind: str) -> None:
    caller, owner = roles("caller").name, roles("owner").name
    db.execute("create function public.caller() returns name security definer language sql as 'select mqpg._caller()'")
    db.execute(
        f"grant usage on schema mqpg to {caller}, {owner};"
        f"grant execute on function mqpg._caller(), mqpg._is_direct(), mqpg._refuse_checker() to {caller}, {owner};"
        f"alter function public.caller() owner to {owner}".encode()
    )
    asked, expected = "select mqpg._caller()", caller
    with db.transaction(force_rollback=True):
        if kind == "session":
            expected = db.execute("select session_user").fetchone()[0]  # type: ignore[index]
        elif kind == "session authorization":
            db.execute(f"set local session authorization {caller}".encode())
        elif kind == "set role":
            db.execute(f"set role {caller}".encode())
        else:
            db.execute(f"set local role {caller}".encode())
        if kind == "definer":
            asked = "select public.caller()"
        assert db.execute(asked).fetchone() == (expected,)
