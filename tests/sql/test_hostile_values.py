"""Hostile values: whatever a caller passes, a public function succeeds, or it fails with a code of
class MQ or with one that docs/sql.md names.

`ROWS` has one row for each public function: a call that is right, in which one argument after the
other, and then several at once, get the values of `HOSTILE`. Each call is rolled back.
"""

import collections
import copy
import os
import random
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.fixtures.databases import Databases
from tests.support.broker import Broker, Session
from tests.support.hostile import CATALOG, HOSTILE, SINCE_17, TEXTS, Function, allowed
from tests.support.shadows import plant

# Right calls of each function; {…} are values of the module's broker. What is not named has its
# default.
ROWS: dict[str, list[dict[str, str]]] = {
    "ack": [
        {"receipt": "'{receipt}'"},
        {"receipt": "'{retry_receipt}'"},
        {"receipt": "'{receipt}'", "through": "{through}"},
        {"receipt": "'{receipt}'", "offsets": "array[{through}]::bigint[]"},
    ],
    "adopt": [{"same_xids": "true"}],
    "adopt_promoted": [{}],
    "advance": [{"consumer_group": "'g'", "topic": "'t'", "queue_ids": "array[0]", "offsets": "array[0]::bigint[]"}],
    "alter_producer_group": [
        {"producer_group": "'pg'"},
        {"producer_group": "'fn'", "checker": "'function'", "checker_target": "'public.answer'"},
        {"producer_group": "'idle'", "checker": "'url'", "checker_target": "'shop'"},
    ],
    "alter_subscription": [
        {"consumer_group": "'g'", "topic": "'t'"},
        {"consumer_group": "'shared'", "topic": "'t'"},
        {"consumer_group": "'cast'", "topic": "'t'"},
        {"consumer_group": "'g'", "topic": "'t'", "filter": "'$.a > 0 && $tag == null'", "tags": "'{x}'"},
    ],
    "alter_topic": [{"topic": "'t'"}],
    "append": [{}],
    "check_wait": [{"handle": "'{handle}'"}],
    "commit": [
        {"handle": "'{handle}'", "payload": "'1'"},
        {"handle": "'{relay_handle}'", "payload": "'1'"},
    ],
    "commit_batch": [
        {"handles": "array['{handle}']", "payloads": "'{1}'"},
        {"handles": "array['{relay_handle}', '{handle}']", "payloads": "'{1,null}'"},
        {"handles": "array['{first_half}', '{second_half}']"},
    ],
    "commit_once": [
        {"producer_group": "'pg'", "handles": "array['{handle}']"},
        {"producer_group": "'pg'", "handles": "array['{handle}']", "writer": "'w'", "batch_no": "1"},
    ],
    "compensate": [{}],
    "create_producer_group": [
        {"producer_group": "'new'"},
        {"producer_group": "'new'", "checker": "'function'", "checker_target": "'public.answer'"},
        {"producer_group": "'new'", "checker": "'url'", "checker_target": "'shop'"},
    ],
    "create_topic": [{"topic": "'new'"}],
    "dead_letters": [
        {"consumer_group": "'g'", "topic": "'t'"},
        {"consumer_group": "'g'", "topic": "'dying'", "after_id": "{dead_id}"},
    ],
    "discard_dead_letters": [
        {"consumer_group": "'g'", "topic": "'t'"},
        {"consumer_group": "'g'", "topic": "'dying'"},
    ],
    "drop_producer_group": [{"producer_group": "'idle'"}],
    "drop_topic": [
        {"topic": "'empty'"},
        {"topic": "'t'", "force": "true"},
    ],
    "due_checks": [{"producer_group": "'pg'"}],
    "extend": [
        {"receipt": "'{receipt}'", "lease": "'1 s'"},
        {"receipt": "'{retry_receipt}'", "lease": "'1 s'"},
    ],
    "fetch": [{"topic": "'t'", "queue_id": "0", "from_offset": "0"}],
    "fetch_batches": [{"topic": "'t'", "queue_id": "0", "from_offset": "0", "to_offset": "0"}],
    "fetch_range": [{"topic": "'t'", "queue_id": "0", "from_offset": "0", "to_offset": "0"}],
    "find_by_key": [{"topic": "'t'", "key": "'k'"}],
    "grant_auditor": [{"role": "'pg_monitor'"}],
    "grant_operator": [{"role": "'pg_monitor'"}],
    "grant_produce": [{"producer_group": "'pg'", "role": "'pg_monitor'"}],
    "grant_receive": [{"consumer_group": "'g'", "topic": "'t'", "role": "'pg_monitor'"}],
    "grant_send": [{"topic": "'t'", "role": "'pg_monitor'"}, {"topic": "'*'", "role": "'pg_monitor'"}],
    "grant_worker": [{"role": "'pg_monitor'"}],
    "half_states": [{"handles": "array['{handle}']"}],
    "keep": [{}],
    "local_begin": [{"handle": "'{handle}'"}],
    "nack": [
        {"receipt": "'{receipt}'", "message_ids": "array[{claimed_id}]"},
        {"receipt": "'{retry_receipt}'", "message_ids": "array[{retry_id}]"},
        {"receipt": "'{receipt}'", "message_ids": "array[{claimed_id}]", "final": "true"},
        {"receipt": "'{blocked_receipt}'", "message_ids": "array[{blocked_id}]"},
    ],
    "pause": [
        {"topic": "'t'"},
        {"topic": "'t'", "consumer_group": "'g'"},
    ],
    "prepare": [
        {"topic": "'t'", "payload": "'1'", "producer_group": "'pg'"},
        {"topic": "'r'", "payload": "'1'", "producer_group": "'pg'", "headers": "'{}'"},
        {"topic": "'t'", "payload": "'1'", "producer_group": "'pg'", "dedup_id": "'d'"},
    ],
    "prepare_batch": [
        {"topic": "'t'", "payloads": "'{1,2}'", "producer_group": "'pg'"},
        {"topic": "'r'", "payloads": "'{1,2}'", "producer_group": "'pg'"},
    ],
    "purge_topic": [{"topic": "'t'"}],
    "ready": [{"consumer_group": "'g'"}],
    "rearm": [{"handle": "'{handle}'"}],
    "recall": [
        {"message_id": "{delayed_id}"},
        {"message_id": "(select {delayed_id})"},
    ],
    "receive": [
        {"consumer_group": "'g'", "topic": "'t'"},
        {"consumer_group": "'pin'", "topic": "'t'", "consumer": "'c'"},
        {"consumer_group": "'cast'", "topic": "'t'", "consumer": "'new'"},
        {"consumer_group": "'shared'", "topic": "'t'"},
        {"consumer_group": "'filtered'", "topic": "'t'"},
        {"consumer_group": "'g'", "topic": "'t'", "ack": "'{receipt}'"},
        {"consumer_group": "'g'", "topic": "'blocked'", "ack": "'{blocked_receipt}'"},
        {"consumer_group": "'g'", "topic": "'dying'", "ack": "'{retry_receipt}'"},
    ],
    "reconcile": [{}],
    "redrive": [
        {"consumer_group": "'g'", "topic": "'t'"},
        {"consumer_group": "'g'", "topic": "'dying'"},
    ],
    "release": [{"receipt": "'{receipt}'"}],
    "resume": [
        {"topic": "'t'"},
        {"topic": "'t'", "consumer_group": "'cast'"},
    ],
    "rollback": [{"handle": "'{handle}'"}],
    "rollback_batch": [{"handles": "array['{handle}']"}, {"handles": "array['{first_half}', '{second_half}']"}],
    "schema_version": [{}],
    "seek": [
        {"consumer_group": "'g'", "topic": "'t'", "target": "'latest'"},
        {"consumer_group": "'g'", "topic": "'t'", "target": "'0'", "queue_id": "0"},
        {"consumer_group": "'g'", "topic": "'dying'", "target": "'earliest'", "queue_id": "-1"},
        {"consumer_group": "'cast'", "topic": "'t'", "target": "'2020-01-01'", "consumer": "'c'"},
    ],
    "send": [
        {"topic": "'t'", "payload": "'1'"},
        {"topic": "'t'", "payload": "'1'", "delay": "'1 s'", "dedup_id": "'d'"},
        {"topic": "'t'", "payload": "'1'", "deliver_at": "current_timestamp"},
    ],
    "send_batch": [
        {"topic": "'t'", "payloads": "'{1,2}'"},
        {
            "topic": "'t'",
            "payloads": "'{1,2}'",
            "keys": "'{k,k}'",
            "tags": "'{a,b}'",
            "headers": "array['{}', null]",
            "delay": "'1 s'",
            "dedup_ids": "'{d,d}'",
        },
    ],
    "settle": [{"handle": "'{handle}'", "verdict": "'commit'", "reason": "'why'"}],
    "subscribe": [
        {"consumer_group": "'new'", "topic": "'t'"},
        {"consumer_group": "'new'", "topic": "'t'", "filter": "'$.a > 0 && $tag == null'", "tags": "'{x}'"},
        {"consumer_group": "'new'", "topic": "'t'", "mode": "'broadcast'", "start": "'2020-01-01'"},
    ],
    "topic_offsets": [{"topic": "'t'"}, {"topic": "'t'", "at": "'2020-01-01'", "consumer_group": "'g'"}],
    "acknowledged": [{"message_id": "{message_id}", "consumer_group": "'g'"}],
    "trace": [{"message_id": "{message_id}"}],
    "unpin": [
        {"consumer_group": "'pin'", "topic": "'t'"},
        {"consumer_group": "'pin'", "topic": "'t'", "queue_id": "0", "consumer": "'c'"},
    ],
    "unsubscribe": [
        {"consumer_group": "'g'", "topic": "'t'"},
        {"consumer_group": "'cast'", "topic": "'t'", "consumer": "'c'"},
    ],
    "why": [{"message_id": "{message_id}", "handle": "'{handle}'", "consumer_group": "'g'", "topic": "'t'"}],
}
ROWS |= {name.replace("grant", "revoke"): rows for name, rows in ROWS.items() if name.startswith("grant_")}
# Other values that are right in some function, so that hostile ones get past the first checks.
RIGHT: dict[str, list[str]] = {
    "topic": ["'t'", "'r'", "'blocked'"],
    "consumer_group": ["'g'", "'pin'", "'cast'", "'shared'", "'filtered'"],
    "producer_group": ["'pg'", "'led'", "'fn'"],
    "consumer": ["'c'"],
    "mode": ["'exclusive'", "'shared'", "'pinned'", "'broadcast'"],
    "start": ["'earliest'", "'latest'", "'2020-01-01'"],
    "target": ["'earliest'", "'latest'", "'0'", "'2020-01-01'"],
    "kind": ["'normal'", "'relay'"],
    "on_failure": ["'skip'", "'block_key'", "'block_queue'"],
    "on_exhausted": ["'park'", "'rollback'"],
    "on_expired": ["'skip'", "'dead_letter'"],
    "checker": ["'due_checks'", "'ledger'", "'function'", "'url'"],
    "queue_id": ["-1", "0", "1"],
    "receipt": ["'{receipt}'", "'{retry_receipt}'"],
    "handle": ["'{handle}'", "'{relay_handle}'"],
    "message_ids": ["array[{claimed_id}]", "array[{retry_id}]", "array[{dead_id}]"],
    "message_id": ["{message_id}", "{delayed_id}"],
}
# Rows whose half message is neither handed out nor parked, in the stage that all tests share.
WRONG_NOW = {("check_wait", "MQ018"), ("rearm", "MQ018")}
# Arguments whose null means something although it is not the default: never.
NULL_MEANS = {("create_producer_group", "expire_after")}
# Calls for each row with several hostile values. A seed repeats them.
ROUNDS = int(os.environ.get("MQPG_HOSTILE_ROUNDS", "15"))
# Settings that a role or a database may have, with values that few people try.
ODD_SETTINGS: list[dict[str, str]] = [
    {"standard_conforming_strings": "off"},
    {"backslash_quote": "off", "quote_all_identifiers": "on", "search_path": "", "client_encoding": "LATIN1"}
    | {"IntervalStyle": "iso_8601", "DateStyle": "German", "TimeZone": "America/St_Johns"},
    {"array_nulls": "off", "transform_null_equals": "on", "bytea_output": "escape", "extra_float_digits": "-5"}
    | {"DateStyle": "SQL, DMY", "IntervalStyle": "sql_standard", "TimeZone": "Asia/Kathmandu"},
    {"plan_cache_mode": "force_custom_plan", "enable_partition_pruning": "off"}
    | {"work_mem": "64kB", "synchronous_commit": "off"},
]
# The first names every schema before pg_catalog; the second is the path that a role has by default.
PATHS = ["pg_temp, planted, public, mqpg, pg_catalog", '"$user", public, planted']
Faults = dict[tuple[str, str], list[str]]


class Stage:
    """A broker with something in every table, and the public functions of its catalog."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.mq = mq = broker.session()
        mq.subscribed("t", queues=2)
        mq.subscribed("r", kind="relay")
        mq.subscribed("blocked", on_failure="block_key")
        mq.subscribed("dying", max_attempts=1)
        mq.call("create_topic", "empty", queues=1)
        mq.call("subscribe", "shared", "t", mode="shared")
        mq.call("subscribe", "pin", "t", mode="pinned")
        mq.call("subscribe", "cast", "t", mode="broadcast")
        mq.execute("select mqpg.subscribe('filtered', 't', filter => '$.a > 0')")
        mq.execute("create function public.answer(text, text, jsonb, json) returns mqpg.verdict"
                   " security definer language sql as $$ select 'wait'::mqpg.verdict $$")  # fmt: skip
        mq.execute("select mqpg.create_producer_group('pg', check_after => '10 ms')")
        mq.execute("select mqpg.create_producer_group('led', checker => 'ledger', check_after => '10 ms')")
        mq.execute("select mqpg.create_producer_group('fn', checker => 'function', checker_target => 'public.answer')")
        mq.call("create_producer_group", "idle")
        message_id = mq.send_batch("t", ["1"] * 20, keys=["k"] * 20)[0]
        handle, relay_handle = mq.prepare("t", "1"), mq.prepare("r", "1")
        first_half, second_half = (row[0] for row in mq.call("prepare_batch", "t", ["1", "2"], "pg"))
        for topic in ("blocked", "dying"):
            mq.sent_batch(topic, ["1"] * 5)
        dead = mq.receive("dying", max_messages=2)
        mq.nack(dead[0].receipt, [m.message_id for m in dead])
        blocked = mq.receive("blocked", max_messages=2)[0]
        mq.call("alter_subscription", "g", "dying", max_attempts=9)
        last = mq.receive("dying", max_messages=1)[0]
        mq.execute("select mqpg.nack(%s, array[%s]::bigint[], delay => '0')", last.receipt, last.message_id)
        mq.append()
        retry = mq.call("receive", "g", "dying", queue_id=-1)[0]
        claimed = mq.receive("t", max_messages=10, lease="1 day")[0]
        mq.receive("t", group="pin", consumer="c", max_messages=5)
        mq.receive("t", group="cast", consumer="c", max_messages=5)
        delayed = mq.scalar("select mqpg.send('t', '1', delay => '1 day')")
        self.values: dict[str, object] = {
            "message_id": message_id,
            "handle": handle,
            "relay_handle": relay_handle,
            "first_half": first_half,
            "second_half": second_half,
            "receipt": claimed.receipt,
            "claimed_id": claimed.message_id,
            "through": claimed.queue_offset,
            "blocked_receipt": blocked.receipt,
            "blocked_id": blocked.message_id,
            "retry_receipt": retry.receipt,
            "retry_id": retry.message_id,
            "dead_id": dead[0].message_id,
            "delayed_id": delayed,
        }
        self.version = mq.conn.info.server_version
        mq.execute("set statement_timeout = '20s'")
        mq.execute("set lock_timeout = '2s'")
        self.functions: dict[str, list[Function]] = collections.defaultdict(list)
        for name, n, names, types, defaults, returns_set in mq.rows(CATALOG):
            self.functions[name].append(Function(name, tuple(names[:n]), tuple(types), tuple(defaults), returns_set))

    def hostile(self, kind: str) -> list[str]:
        return [v for v in HOSTILE[kind] if self.version >= 170000 or (kind, v) not in SINCE_17]

    def require_same(self, mq: Session) -> None:
        """Each right call ends for this session as for every other one."""
        odd = copy.copy(self)
        odd.mq = mq
        for name in sorted(ROWS):
            for function in self.functions[name]:
                for row in rows(function):
                    text = function.text(row, self.values)
                    state, message = odd.state(text)
                    assert state == self.state(text)[0], f"{text}: {message}"

    def judge(self, function: Function, values: dict[str, str], faults: Faults) -> None:
        """Make a call, and note it where no caller expects its code."""
        text = function.text(values, self.values)
        state, message = self.state(text)
        if not allowed(function, state):
            faults[state, message.split("\n")[0][:150]].append(text)

    def state(self, text: str) -> tuple[str, str]:
        """The SQLSTATE of a call, '00000' where it succeeds, and its message. The call is rolled back."""
        try:
            with self.mq.conn.transaction(force_rollback=True):
                self.mq.conn.execute(text)
        except psycopg.Error as error:
            return error.sqlstate or type(error).__name__, str(error)
        return "00000", ""


@pytest.fixture(scope="module")
def stage(databases: Databases, template: str) -> Iterator[Stage]:
    with databases.lent(template) as dsn, closing(Broker(dsn)) as broker:
        yield Stage(broker)


def rows(function: Function) -> list[dict[str, str]]:
    """The rows of a function, each with the arguments that this overload has. adopt() moves sequences, which no
    rollback brings back, so only its refusals are tried.
    """
    if function.name == "adopt":
        return []
    return [{name: value for name, value in row.items() if name in function.arguments} for row in ROWS[function.name]]


def complain(faults: Faults) -> None:
    if faults:
        lines = [
            f"{len(calls)} times {state}: {message}\n    {calls[0][:400]}" for (state, message), calls in faults.items()
        ]
        pytest.fail("codes that no caller expects:\n" + "\n".join(lines), pytrace=False)


def test_every_public_function_has_a_row(stage: Stage) -> None:
    assert ROWS.keys() == stage.functions.keys()


def test_every_type_has_hostile_values(stage: Stage) -> None:
    kinds = {kind for overloads in stage.functions.values() for f in overloads for kind in f.types}
    assert kinds <= HOSTILE.keys()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_rows_are_right(stage: Stage, name: str) -> None:
    """Otherwise hostile values would only meet the refusal of another argument."""
    for function in stage.functions[name]:
        for row in rows(function):
            state, message = stage.state(function.text(row, stage.values))
            assert (name, state) in WRONG_NOW or state == "00000", f"{row}: {message}"


@pytest.mark.parametrize("name", sorted(ROWS))
def test_one_hostile_value(stage: Stage, name: str) -> None:
    faults: Faults = collections.defaultdict(list)
    for function in stage.functions[name]:
        for row in rows(function):
            for argument, kind in zip(function.arguments, function.types, strict=True):
                for value in ["null", *stage.hostile(kind)]:
                    stage.judge(function, {**row, argument: value}, faults)
    complain(faults)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_many_hostile_values(stage: Stage, name: str, rng: random.Random) -> None:
    faults: Faults = collections.defaultdict(list)
    for function in stage.functions[name]:
        for row in rows(function) * (ROUNDS if function.arguments else 1):
            values = dict(row)
            for argument, kind in zip(function.arguments, function.types, strict=True):
                if rng.random() < 0.4:
                    right = RIGHT.get(argument, [])
                    values[argument] = rng.choice(right if right and rng.random() < 0.6 else stage.hostile(kind))
            stage.judge(function, values, faults)
    complain(faults)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_null_is_refused_by_name_unless_it_is_the_default(stage: Stage, name: str) -> None:
    for function in stage.functions[name]:
        for argument, default in zip(function.arguments, function.defaults, strict=True):
            if (name, argument) not in NULL_MEANS and (default is None or not default.startswith("NULL")):
                state, message = stage.state(function.text({**ROWS[name][0], argument: "null"}, stage.values))
                assert (state, argument in message) == ("MQ001", True), f"{argument} of {function}: {state} {message}"


@pytest.mark.parametrize("settings", ODD_SETTINGS, ids=lambda settings: next(iter(settings)))
def test_the_callers_settings_do_not_matter(stage: Stage, settings: dict[str, str], server_version: int) -> None:
    """A session that has compiled no function yet gets from each call what every session gets."""
    if "standard_conforming_strings" in settings and server_version >= 190000:
        pytest.skip("it cannot be switched off")
    mq = stage.broker.session()
    for name, value in settings.items():
        mq.execute("select set_config(%s, %s, false)", name, value)
    stage.require_same(mq)


@pytest.fixture(scope="module")
def planted(stage: Stage) -> None:
    """Objects with the names of everything that mqpg calls. Its owner may use them, or it would not see them."""
    with psycopg.connect(stage.broker.dsn, autocommit=True) as conn:
        conn.execute("create schema planted; grant usage on schema planted to public")
        assert plant(conn, "planted") > 500


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.usefixtures("planted")
def test_what_a_caller_planted_never_runs(stage: Stage, path: str) -> None:
    """The functions run as the owner, whatever the caller's search_path finds."""
    mq = stage.broker.session()
    for schema, tables in (("mqpg", ("topic", "commit_log")), ("pg_catalog", ("pg_proc", "pg_inherits"))):
        for table in tables:
            mq.execute(f"create temp table {table} (like {schema}.{table})")
    mq.execute("create type pg_temp.xid8 as (x int); create type pg_temp.claim as (x int)")
    views = stage.mq.rows("select viewname from pg_views where schemaname = 'mqpg'")
    mq.execute("select pg_catalog.set_config('search_path', %s, false)", path)
    stage.require_same(mq)
    for (view,) in views:
        mq.execute(f"select * from mqpg.{view}")
    mq.execute("call mqpg.work(0)")
    settings = "array['segment_age', 'dedup_window']"
    with mq.conn.transaction(force_rollback=True):
        mq.execute(f"update mqpg.settings set value = '2 hours' where name operator(pg_catalog.=) any ({settings})")


@pytest.mark.parametrize("value", TEXTS)
def test_a_hostile_setting_is_refused(stage: Stage, value: str) -> None:
    for (name,) in stage.mq.rows("select name from mqpg.settings"):
        state, _ = stage.state(f"update mqpg.settings set value = {value} where name = '{name}' returning name")
        assert state in ("00000", "MQ001"), name
