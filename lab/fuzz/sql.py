"""Random calls of every public SQL function, on a broker in which each of them can succeed.

The functions and their arguments come from the catalog. A function without an entry in `_ROWS` gets
its arguments by their names and types only. Handles and receipts come from real calls.

Beside the calls a witness runs: a topic that no random call names. Whatever the calls do, its
messages come out once and in order.
"""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.types.json import set_json_loads

from tests.support.broker import HOT_TABLES, Broker
from tests.support.hostile import CATALOG, Function, allowed

from .values import hostile, quoted, right

__all__ = ["Report", "SqlFuzzer"]

# SQLSTATEs that are not those of `allowed`: a jsonpath that does not parse, JSON and verdicts that
# the cast refuses, and what the caller's own transaction brings about.
_CASTS = {"42601", "22P02", "22P05", "22003", "22023", "2201B", "54001"}
_TAUGHT = ("json", "jsonb", "jsonpath", "mqpg.verdict", "json[]", "jsonb[]")
_REFILL = 100  # calls between two fillings
_BEGIN = ("", "", " isolation level repeatable read", " isolation level serializable", " read only")
_TOUCHED = """
select relname, n_tup_upd, n_tup_del from pg_stat_user_tables
where schemaname = 'mqpg' and relname ~ %s and n_tup_upd + n_tup_del > 0
"""
_GAPS = """
select cq.topic_id, cq.subscription_id, cq.queue_id, cq.base_offset
from (
    select topic_id, subscription_id, queue_id, base_offset,
        lag(base_offset + n) over (partition by topic_id, subscription_id, queue_id order by base_offset) as expected
    from mqpg.consume_queue
) as cq
where cq.base_offset <> cq.expected
"""


@dataclass
class Report:
    """What came of the calls.

    Attributes:
        faults: What no caller expects, with the calls that ended so.
    """

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    called: collections.Counter[str] = field(default_factory=collections.Counter)
    succeeded: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))

    @property
    def never(self) -> list[str]:
        """What never succeeded."""
        return sorted(self.called.keys() - self.succeeded.keys())


class SqlFuzzer:
    """Makes the calls on a database of its own. `mq` sets the states up, `conn` makes the calls."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mq = broker.session()
        self.calls = broker.session()
        self.report = Report()
        self.live: dict[str, list[Any]] = collections.defaultdict(list)
        self.sent: dict[str, list[int]] = collections.defaultdict(list)
        self._names = 0
        for session in (self.mq, self.calls):
            # PostgreSQL accepts JSON that Python does not decode.
            set_json_loads(_as_text, session.conn)
            session.execute("set statement_timeout = '60s'")
            session.execute("set lock_timeout = '5s'")
        self.version = self.mq.conn.info.server_version
        self.functions: dict[str, list[Function]] = collections.defaultdict(list)
        for name, n, names, types, defaults, returns_set in self.mq.rows(CATALOG):
            self.functions[name].append(Function(name, tuple(names[:n]), tuple(types), tuple(defaults), returns_set))
        self.mq.execute(
            "create or replace function public.fuzz_answer(text, text, jsonb, json) returns mqpg.verdict"
            " language sql security definer set search_path = pg_catalog as $$ select 'wait'::mqpg.verdict $$"
        )
        self.mq.call("create_topic", "witness", queues=2)
        self.mq.call("subscribe", "w", "witness")
        self.mq.call("create_producer_group", "pw")

    def run(self, calls: int) -> Report:
        """Make that many calls, the last ones with `adopt`, and return what came of them."""
        names = sorted(set(self.functions) - {"adopt"})
        for number in range(calls):
            if number % _REFILL == 0:
                self._fill()
            self._one(self.rng.choice(names))
        self.require_untouched()
        for _ in range(5):
            self._one("adopt")
        # Roll back whatever is left open, and take what is missing.
        for name in self.report.never:
            for _ in range(20):
                self._fill()
                self._one(name, wild=0.0)
                if self.report.succeeded[name]:
                    break
        return self.report

    def _one(self, name: str, wild: float = 0.55) -> None:
        function = self.rng.choice(self.functions[name])
        values = self._right_call(function)
        if self.rng.random() < wild:
            for argument, kind in zip(function.arguments, function.types, strict=True):
                if self.rng.random() < 0.35:
                    if self.rng.random() < 0.4:
                        values[argument] = right(self.rng, argument, kind, self.live)
                    else:
                        values[argument] = hostile(self.rng, kind, self.live, self.version)
        self._call(function, function.text(values, {}), in_transaction=wild > 0 and self.rng.random() < 0.25)

    def _right_call(self, function: Function) -> dict[str, str]:
        row = _ROWS[function.name](self) if function.name in _ROWS else {}
        values: dict[str, str] = {}
        for argument, kind, default in zip(function.arguments, function.types, function.defaults, strict=True):
            if argument in row:
                values[argument] = row[argument]
            elif default is None or (function.name not in _ROWS and self.rng.random() < 0.3):
                values[argument] = right(self.rng, argument, kind, self.live)
        return values

    def _call(self, function: Function, text: str, *, in_transaction: bool) -> None:
        report, name = self.report, function.name
        report.called[name] += 1
        conn, state, message = self.calls.conn, "ok", ""
        try:
            if in_transaction:
                conn.execute("begin" + self.rng.choice(_BEGIN))
                if self.rng.random() < 0.3:
                    conn.execute("select 1")
            rows = conn.execute(text).fetchall()
            if in_transaction:
                conn.execute(self.rng.choice(["commit", "rollback"]))
            self._learn(name, rows)
        except psycopg.Error as error:
            state, message = error.sqlstate or type(error).__name__, str(error).split("\n")[0]
        finally:
            if not conn.closed and conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                conn.execute("rollback")
        report.outcomes[state] += 1
        if state == "ok":
            report.succeeded[name] += 1
        elif not self._allowed(function, state):
            report.faults[f"{name} {state} {message[:160]}"].append(text[:600])
        assert not conn.closed, f"the connection is lost: {text}"

    def _allowed(self, function: Function, state: str) -> bool:
        cast = state in _CASTS and any(kind in _TAUGHT for kind in function.types)
        return allowed(function, state) or cast

    def _learn(self, name: str, rows: list[Any]) -> None:
        if name in ("prepare", "prepare_batch"):
            self._keep("handle", *(row[0] for row in rows[:3]))
        elif name == "receive" and rows:
            self._keep("receipt", rows[0].receipt)
        elif name in ("send", "send_batch"):
            self._keep("message_id", *(row[0] for row in rows[:3]))

    def _keep(self, what: str, *values: object) -> None:
        self.live[what] = [*self.live[what], *(one for one in values if one is not None)][-60:]

    # states

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _try(self, function: str, *args: object, **named: object) -> list[Any]:
        """A call that sets a state up. A random call may have dropped or paused what it needs."""
        try:
            return self.mq.call(function, *args, **named)
        except psycopg.Error as error:
            if error.sqlstate is None:  # the connection is lost
                raise
            return []

    def _fill(self) -> None:
        for topic, queues, kind in (("fa", 3, "normal"), ("fb", 1, "normal"), ("fr", 1, "relay"), ("fd", 1, "normal")):
            self._try("create_topic", topic, queues=queues, kind=kind)
            # A random limit would refuse every later message of the topic, or let it expire.
            self._try("alter_topic", topic, max_payload=1048576, message_ttl="0", lose_over=0, max_bytes=0)
            self._try("resume", topic)
        for group, topic, mode in (
            ("ga", "fa", "exclusive"),
            ("gs", "fa", "shared"),
            ("gp", "fa", "pinned"),
            ("gc", "fa", "broadcast"),
            ("gf", "fb", "exclusive"),
            ("gb", "fb", "exclusive"),
            ("ga", "fr", "exclusive"),
            ("gd", "fd", "shared"),
        ):
            self._try("subscribe", group, topic, mode=mode)
            self._try("resume", topic, group)
        self._try("create_producer_group", "pa")
        self._try("create_producer_group", "pl", checker="ledger")
        self._try("create_producer_group", "pf", checker="function", checker_target="public.fuzz_answer")
        for row in self._try("send_batch", "fa", ["1", '{"a": 1}'], keys=["k1", "k2"]):
            self._keep("message_id", row[0])
        for row in self._try("send", "fa", "1", delay="1 day"):
            self._keep("delayed", row[0])
        for topic in ("fa", "fr"):
            for row in self._try("prepare", topic, "1", "pa"):
                self._keep("handle", row[0])
        self._witness()
        self._try("append")
        for group, consumer in (("ga", None), ("gs", None), ("gp", "c1"), ("gc", "c1")):
            if rows := self._try("receive", group, "fa", 3, "1 s", consumer=consumer):
                self._keep("receipt", rows[0].receipt)

    def _witness(self) -> None:
        """Send to the witness what nothing may lose: plain, and as half messages."""
        key = self.rng.choice(["a", "b", "c"])
        self.sent[key].append(self.mq.send("witness", "1", key=key))
        handle = self.mq.prepare("witness", "2", "pw", key=self.rng.choice(["a", "b", "c"]))
        self.sent["half"].append(int(handle.split(".")[2]) if self.mq.commit(handle) == "committed" else -1)

    def claimed(self) -> Any:
        """Rows of a new delivery."""
        topic, group = "fd", "gd"
        self._try("send_batch", topic, ["1", "1"])
        self._try("append")
        return self._try("receive", group, topic, 2, "1 day")

    def half(self, topic: str = "fa", group: str = "pa", **named: object) -> str:
        rows = self._try("prepare", topic, "1", group, **named)
        return quoted(rows[0][0]) if rows else "'none'"

    def halves(self) -> str:
        """Half messages of one record batch."""
        rows = self._try("prepare_batch", "fa", ["1"] * self.rng.randint(1, 5), "pa")
        return f"array[{', '.join(quoted(row[0]) for row in rows)}]::text[]"

    def asked(self, group: str | None = None) -> tuple[str, str]:
        """A producer group, and a half message that is handed out to its application."""
        group = group or self.fresh("asked")
        self._try("create_producer_group", group, check_after="10 ms", max_checks=1)
        handle = self.half(group=group)
        for _ in range(100):
            if handle == "'none'" or self._try("due_checks", group, 10, "20 ms"):
                break
            time.sleep(0.005)
        return group, handle

    def parked(self) -> str:
        group, handle = self.asked()
        for _ in range(200):
            self._try("due_checks", group, 10, "10 ms")
            if handle == "'none'" or self.mq.rows("select from mqpg.half_parked where handle = " + handle):
                break
            time.sleep(0.005)
        return handle

    def dead(self) -> str:
        """The id of a dead letter of gd."""
        rows = self.claimed()
        if not rows:
            return "0"
        self._try("nack", rows[0].receipt, [rows[0].message_id], final=True)
        return str(rows[0].message_id)

    # what holds afterwards

    def require_untouched(self) -> None:
        """Hot tables see INSERT only (I10). `adopt` is the exception."""
        self.mq.execute("select pg_stat_force_next_flush()")
        self.calls.execute("select pg_stat_force_next_flush()")
        touched = self.mq.rows(_TOUCHED, f"^({'|'.join(HOT_TABLES)})(_|$)")
        assert not touched, touched

    def require_whole(self) -> None:
        """Nothing of the witness is lost or doubled, offsets are dense (I4), and no lock is left."""
        self.mq.append()
        self.calls.conn.close()
        got = self.mq.drain("witness", group="w")
        ids = [one.message_id for one in got]
        assert len(ids) == len(set(ids)), "delivered twice"
        plain = {one for key in "abc" for one in self.sent[key]}
        assert {one.message_id for one in got if one.payload == "1"} == plain
        assert sum(one.payload == "2" for one in got) == len(self.sent["half"]) - self.sent["half"].count(-1)
        for key in "abc":
            order = [one.message_id for one in got if one.key == key and one.payload == "1"]
            assert order == self.sent[key], f"order of {key}"
        gaps = self.mq.rows(_GAPS)
        assert not gaps, gaps
        locks = self.mq.rows("select * from pg_locks where locktype = 'advisory' and database = ("
                             "select oid from pg_database where datname = current_database())")  # fmt: skip
        assert not locks, locks


def _as_text(found: str | bytes) -> str:
    return found.decode() if isinstance(found, bytes) else found


def _receipt(fuzz: SqlFuzzer) -> dict[str, str]:
    rows = fuzz.claimed()
    return {"receipt": quoted(rows[0].receipt if rows else "none")}


def _receive(fuzz: SqlFuzzer) -> dict[str, str]:
    if fuzz.rng.random() < 0.5:
        return _reading("ga", "fa")(fuzz)
    return {"consumer_group": "'gd'", "topic": "'fd'", "ack": _receipt(fuzz)["receipt"]}


def _nack(fuzz: SqlFuzzer) -> dict[str, str]:
    rows = fuzz.claimed()
    if not rows:
        return {"receipt": "'none'", "message_ids": "array[1]::bigint[]"}
    return {"receipt": quoted(rows[0].receipt), "message_ids": f"array[{rows[0].message_id}]::bigint[]"}


def _topic(fuzz: SqlFuzzer) -> dict[str, str]:
    topic = fuzz.fresh("t")
    fuzz._try("create_topic", topic)
    return {"topic": quoted(topic)}


def _subscription(fuzz: SqlFuzzer) -> dict[str, str]:
    group, topic = fuzz.fresh("g"), fuzz.rng.choice(["fa", "fd"])
    fuzz._try("subscribe", group, topic)
    return {"consumer_group": quoted(group), "topic": quoted(topic)}


def _advance(fuzz: SqlFuzzer) -> dict[str, str]:
    """To where the group is."""
    group, topic = fuzz.fresh("g"), "fd"
    fuzz._try("subscribe", group, topic)
    rows = fuzz._try("topic_offsets", topic, None, group)
    offsets = f"array[{rows[0].committed if rows else 0}]::bigint[]"
    return {"consumer_group": quoted(group), "topic": quoted(topic), "queue_ids": "array[0]", "offsets": offsets}


def _dead(fuzz: SqlFuzzer) -> dict[str, str]:
    return {"consumer_group": "'gd'", "topic": "'fd'", "message_ids": f"array[{fuzz.dead()}]::bigint[]"}


def _delayed(fuzz: SqlFuzzer) -> dict[str, str]:
    rows = fuzz._try("send", "fd", "1", delay="1 day")
    return {"message_id": str(rows[0][0]) if rows else "0"}


def _producers(fuzz: SqlFuzzer) -> dict[str, str]:
    group = fuzz.fresh("p")
    fuzz._try("create_producer_group", group)
    return {"producer_group": quoted(group)}


def _reading(group: str, topic: str, **more: str) -> Callable[[SqlFuzzer], dict[str, str]]:
    named = {"consumer_group": quoted(group), "topic": quoted(topic), **more}
    return lambda fuzz: dict(named)


# Right calls, with states of their own. What is not named has its default.
_ROWS: dict[str, Callable[[SqlFuzzer], dict[str, str]]] = {
    "ack": _receipt,
    "advance": _advance,
    "adopt": lambda fuzz: {"same_xids": fuzz.rng.choice(["true", "false"])},
    "alter_producer_group": _producers,
    "alter_subscription": _reading("ga", "fa"),
    "alter_topic": lambda fuzz: {"topic": "'fa'"},
    "append": lambda fuzz: {},
    "check_wait": lambda fuzz: {"handle": fuzz.asked()[1]},
    "commit": lambda fuzz: {"handle": fuzz.half()},
    "commit_batch": lambda fuzz: {"handles": f"array[{fuzz.half()}]", "payloads": "'{1}'"},
    "commit_once": lambda fuzz: {"producer_group": "'pa'", "handles": fuzz.halves()},
    "compensate": lambda fuzz: {},
    "create_producer_group": lambda fuzz: {"producer_group": quoted(fuzz.fresh("p"))},
    "create_topic": lambda fuzz: {"topic": quoted(fuzz.fresh("t"))},
    "dead_letters": _reading("gd", "fd"),
    "discard_dead_letters": _dead,
    "drop_producer_group": _producers,
    "drop_topic": _topic,
    "due_checks": lambda fuzz: {"producer_group": quoted(fuzz.asked()[0])},
    "extend": lambda fuzz: {**_receipt(fuzz), "lease": "'10 s'"},
    "fetch": lambda fuzz: {"topic": "'fd'", "queue_id": "0", "from_offset": "0"},
    "fetch_range": lambda fuzz: {"topic": "'fd'", "queue_id": "0", "from_offset": "0", "to_offset": "0"},
    "find_by_key": lambda fuzz: {"topic": "'fa'", "key": "'k1'"},
    "half_states": lambda fuzz: {"handles": f"array[{fuzz.half()}]"},
    "keep": lambda fuzz: {},
    "local_begin": lambda fuzz: {"handle": fuzz.half()},
    "nack": _nack,
    "prepare": lambda fuzz: {"topic": "'fa'", "payload": "'1'", "producer_group": "'pa'"},
    "prepare_batch": lambda fuzz: {"topic": "'fa'", "payloads": "'{1,2}'", "producer_group": "'pa'"},
    "pause": _subscription,
    "purge_topic": _topic,
    "ready": lambda fuzz: {"consumer_group": "'ga'"},
    "rearm": lambda fuzz: {"handle": fuzz.parked()},
    "recall": _delayed,
    "receive": _receive,
    "reconcile": lambda fuzz: {},
    "redrive": _dead,
    "release": _receipt,
    "resume": _reading("ga", "fa"),
    "rollback": lambda fuzz: {"handle": fuzz.half()},
    "rollback_batch": lambda fuzz: {"handles": fuzz.rng.choice([f"array[{fuzz.half()}]", fuzz.halves()])},
    "seek": lambda fuzz: {**_subscription(fuzz), "target": "'latest'"},
    "send": lambda fuzz: {"topic": quoted(fuzz.rng.choice(["fa", "fb"])), "payload": "'1'"},
    "send_batch": lambda fuzz: {"topic": "'fa'", "payloads": "'{1,2}'"},
    "settle": lambda fuzz: {"handle": fuzz.parked(), "verdict": "'commit'", "reason": "'why'"},
    "acknowledged": lambda fuzz: {**_delayed(fuzz), "consumer_group": "'gd'"},
    "subscribe": lambda fuzz: {"consumer_group": quoted(fuzz.fresh("g")), "topic": "'fa'"},
    "trace": _delayed,
    "unpin": _reading("gp", "fa"),
    "unsubscribe": _subscription,
    "why": lambda fuzz: {**_delayed(fuzz), "handle": fuzz.half(), "consumer_group": "'ga'", "topic": "'fa'"},
}
