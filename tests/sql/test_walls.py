"""Nothing that a caller puts into the search_path runs inside mqpg, whose functions run as the owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.shadows import plant

Connection = psycopg.Connection[Any]

# The second is the path that a role has by default; the first names every schema before pg_catalog.
PATHS = ["pg_temp, planted, public, mqpg, pg_catalog", '"$user", public, planted']

CALLS = [
    "select mqpg.create_topic('walls', queues => 2)",
    "select mqpg.create_topic('relayed', kind => 'relay')",
    "select mqpg.create_producer_group('shop', check_after => interval '10 ms')",
    "select mqpg.subscribe('g', 'walls', retry_delay => '0 s', max_attempts => 2)",
    "select mqpg.subscribe('chosen', 'walls', 'shared', filter => '$.id > 1')",
    "select mqpg.subscribe('all', 'walls', 'broadcast')",
    "select mqpg.send('walls', '{\"id\": 1}'::text, key => 'k', tag => 't', headers => '{\"h\": 1}')",
    "select mqpg.send('walls', '{\"id\": 2}'::jsonb, dedup_id => 'one')",
    "select mqpg.send('walls', '3'::json, delay => interval '1 ms')",
    "select mqpg.recall(mqpg.send('walls', '4'::json, delay => interval '1 hour'))",
    "select mqpg.send_batch('walls', array['1', '2', '3'], keys => array['k', null, 'l'])",
    "select mqpg.append()",
    "select * from mqpg.receive('all', 'walls', consumer => 'me')",
    "select * from mqpg.receive('chosen', 'walls')",
    "select mqpg.nack(r.receipt, pg_catalog.array_agg(r.message_id), 'no') from mqpg.receive('g', 'walls') r group by r.receipt",
    "select mqpg.append()",
    "select mqpg.ack(r.receipt) from mqpg.receive('g', 'walls', 1) r group by r.receipt",
    "select mqpg.extend(r.receipt, '1 min') from mqpg.receive('g', 'walls', 1) r group by r.receipt",
    "select mqpg.commit(mqpg.prepare('walls', '5'::text, 'shop'))",
    "select mqpg.commit(mqpg.prepare('relayed', '5'::jsonb, 'shop'), '6'::jsonb)",
    "select mqpg.rollback(mqpg.prepare('walls', '5'::json, 'shop', key => 'k', dedup_id => 'two'))",
    "select * from mqpg.commit_batch(array(select mqpg.prepare_batch('walls', array['7', '8'], 'shop')))",
    "select * from mqpg.rollback_batch(array(select mqpg.prepare_batch('walls', array['7', '8'], 'shop')))",
    "select mqpg.local_begin(mqpg.prepare('walls', '9'::text, 'shop'))",
    "select mqpg.prepare('walls', '9'::text, 'shop', check_after => '10 ms')",
    "select mqpg.append()",
    "select mqpg.compensate()",
    "select * from mqpg.due_checks('shop')",
    "select * from mqpg.half_states(array['nothing'])",
    "select * from mqpg.dead_letters('g', 'walls')",
    "select mqpg.redrive('g', 'walls')",
    "select mqpg.discard_dead_letters('g', 'walls')",
    "select * from mqpg.fetch('walls', 0, 0)",
    "select * from mqpg.ready('g')",
    "select * from mqpg.find_by_key('walls', 'k')",
    "select mqpg.seek('g', 'walls', 'earliest')",
    "select mqpg.alter_topic('walls', retention => '1 minute')",
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
    "select mqpg.purge_topic('walls')",
    "select mqpg.unsubscribe('g', 'walls')",
    "select mqpg.drop_topic('walls', force => true)",
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
def test_the_caller_is_the_role_that_calls(connect: Callable[..., Connection], kind: str) -> None:
    db = connect()
    db.execute("create function public.caller() returns name security definer language sql as 'select mqpg._caller()'")
    db.execute("create role walls_a; create role walls_b; grant usage on schema mqpg to walls_a, walls_b")
    db.execute("grant execute on function mqpg._caller() to walls_a, walls_b")
    db.execute("alter function public.caller() owner to walls_b")
    asked, expected = "select mqpg._caller()", "walls_a"
    try:
        with db.transaction():
            if kind == "session":
                expected = db.execute("select session_user").fetchone()[0]  # type: ignore[index]
            elif kind == "session authorization":
                db.execute("set local session authorization walls_a")
            elif kind == "set role":
                db.execute("set role walls_a")
            else:
                db.execute("set local role walls_a")
            if kind == "definer":
                asked = "select public.caller()"
            assert db.execute(asked).fetchone() == (expected,)
            raise psycopg.Rollback
    finally:
        db.execute("reset role")
        db.execute("drop owned by walls_a, walls_b; drop role walls_a, walls_b")
