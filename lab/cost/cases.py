"""The calls that are counted: those of mqpg on the hot path, and how others do the same.

A value passes from one statement to the next in a setting of the session. What `set_config` and
`current_setting` cost is small, and the same for every side.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "SETUP", "Case"]

_BODY = '{"pad": "' + "x" * 224 + '"}'  # 235 bytes


@dataclass(frozen=True)
class Case:
    """A call that is counted.

    Attributes:
        name: The row of the table.
        side: Who does it.
        counted: The statements of the call, each in a transaction of its own.
        before: Statements that run before each call and are not counted.
        messages: How many messages a call has; the table shows the cost of one.
    """

    name: str
    side: str
    counted: tuple[str, ...]
    before: tuple[str, ...] = ()
    messages: int = 1

    @property
    def times(self) -> tuple[int, int]:
        """How many calls warm up, and how many are counted."""
        return (8, 20) if self.messages == 1 else (6, 4)


def _bodies(n: int, of: str = "text") -> str:
    return f"array_fill('{_BODY}'::{of}, array[{n}])"


def _keep(value: str, source: str = "", name: str = "kept") -> str:
    """A statement that keeps a value for the next one."""
    return f"select set_config('x.{name}', ({value})::text, false){source and f' from {source}'}"


def _if_rows(n: int, value: str) -> str:
    """The value; an error unless there are so many rows."""
    return f"case when 1 / (count(*) = {n})::int = 1 then {value} end"


_KEPT = "current_setting('x.kept')"
_ACK = "select mqpg.ack(receipt) from nullif(current_setting('x.{}', true), '') as receipt where receipt is not null"
_IDS = "current_setting('x.ids')::bigint[]"
_TOPICS = {"sent": (), "decided": ("one",), "thousands": ("one", "many", "chained", "failing"), "singles": ("many",)}

# What makes the queues of each side and fills them. It runs once, without Valgrind.
SETUP = {
    "bare": (
        "create table sent (id bigint generated always as identity primary key, "
        "born_at timestamptz not null default clock_timestamp(), payload json not null)",
        "create table decision (id bigint primary key)",
    ),
    "pgq": ("select pgq.create_queue('sent')",),
    "pgmq": (
        *(f"select pgmq.create('{queue}')" for queue in ("sent", "op_log", "filled")),
        f"select count(*) from pgmq.send_batch('filled', {_bodies(40_000, 'jsonb')})",
    ),
    "mqpg": (
        "select mqpg.create_producer_group('halves')",
        *(f"select mqpg.create_topic('{topic}')" for topic in _TOPICS),
        *(f"select mqpg.subscribe('{group}', '{topic}')" for topic, groups in _TOPICS.items() for group in groups),
        *[f"select count(*) from mqpg.send_batch('thousands', {_bodies(1000)})"] * 40,
        f"select count(mqpg.send('singles', '{_BODY}'::text)) from generate_series(1, 40000)",
        *["select mqpg.append()"] * 3,
    ),
}


def _bare() -> list[Case]:
    one = f"insert into sent (payload) values ('{_BODY}'::json)"
    return [
        Case("send", "bare", (one,)),
        Case("prepare + commit", "bare", (one, "insert into decision select max(id) from sent")),
        *(
            Case(
                f"send_batch, {n}", "bare", (f"insert into sent (payload) select unnest({_bodies(n, 'json')})",), (), n
            )
            for n in (100, 1000)
        ),
    ]


def _pgq() -> list[Case]:
    return [Case("send", "pgq", (f"select pgq.insert_event('sent', 'one', '{_BODY}')",))]


def _pgmq() -> list[Case]:
    # The scheme of MNS: a half and an entry of the op log; then the one visible, the other deleted.
    half, entry = f"pgmq.send('sent', '{_BODY}'::jsonb, 3600)", "pgmq.send('op_log', '{}'::jsonb, 60)"
    commit = f"select pgmq.set_vt('sent', ({_IDS})[1], 0), pgmq.delete('op_log', ({_IDS})[2])"
    delete = f"select count(*) from pgmq.delete('filled', {_IDS})"
    cases = [
        Case("send", "pgmq", (f"select pgmq.send('sent', '{_BODY}'::jsonb)",)),
        Case("prepare + commit", "pgmq", (_keep(f"array[(select {half}), (select {entry})]", name="ids"), commit)),
    ]
    for n in (100, 1000):
        send = f"select count(*) from pgmq.send_batch('sent', {_bodies(n, 'jsonb')})"
        cases.append(Case(f"send_batch, {n}", "pgmq", (send,), (), n))
    for n in (1, 100, 1000):
        read = _keep(_if_rows(n, "array_agg(msg_id)"), f"pgmq.read('filled', 30, {n})", "ids")
        cases.append(Case(f"receive, ack, {n}", "pgmq", (read, delete), (), n))
    return cases


def _receive(group: str, topic: str, n: int, name: str = "kept") -> str:
    kept = f"set_config('x.{name}', {_if_rows(n, 'max(receipt)')}, false)"
    ids = "set_config('x.ids', array_agg(message_id)::text, false)"
    return f"select {kept}, {ids} from mqpg.receive('{group}', '{topic}', {n})"


def _mqpg() -> list[Case]:
    half = f"mqpg.prepare('sent', '{_BODY}'::text, 'halves')"
    prepare, commit = _keep(half), f"select mqpg.commit({_KEPT})"
    # The first call has nothing to acknowledge.
    chained = "nullif(current_setting('x.chained', true), '')"
    chain = f"mqpg.receive('chained', 'thousands', 1, ack => {chained})"
    ack, receive = f"select mqpg.ack({_KEPT})", _receive("one", "thousands", 1)
    fail = _receive("failing", "thousands", 1)
    halves = _keep("array_agg(handle)", f"mqpg.prepare_batch('decided', {_bodies(100)}, 'halves') as handle")
    decide = f"select {_if_rows(100, '1')} from mqpg.commit_batch({_KEPT}::text[])"
    sends = f"select count(mqpg.send('sent', '{_BODY}'::text)) from generate_series(1, 100)"
    batches = (
        f"select count(*) from (select mqpg.send_batch('sent', {_bodies(100)}) from generate_series(1, 100)) as sent"
    )
    append, appended = "select 1 / (mqpg.append() > 0)::int", "select mqpg.append()"
    # As the appender process calls it.
    one, none = (f"select 1 / (mqpg.append(100000) {moved})::int" for moved in ("= 1", "= 0"))
    second = "select pg_sleep(1.1)"
    cases = [
        Case("send", "mqpg", (f"select mqpg.send('sent', '{_BODY}'::text)",)),
        # The passes before take what other cases have sent. These come first, because otherwise a pass may
        # also enqueue undecided half messages or find that the retries of nack are due, which is a matter of
        # time.
        Case("append, 100 singles", "mqpg", (append,), (appended, sends), 100),
        Case("append, 100 of 100", "mqpg", (append,), (appended, batches), 10_000),
        # Once a second a pass also enqueues undecided half messages. Here each pass that counts does.
        Case("append, 100 decisions", "mqpg", (append,), (appended, second, halves, decide), 100),
        Case("append, 1 single", "mqpg", (one,), (appended, f"select mqpg.send('sent', '{_BODY}'::text)")),
        Case("append, 1 decision", "mqpg", (one,), (appended, prepare, commit)),
        Case("append, nothing", "mqpg", (none,), (appended,)),
        Case("prepare", "mqpg", (prepare,)),
        Case("commit", "mqpg", (commit,), (prepare,)),
        Case("prepare + commit", "mqpg", (prepare, commit)),
        Case("prepare_batch, 100", "mqpg", (halves,), (), 100),
        Case("commit_batch, 100", "mqpg", (decide,), (halves,), 100),
        Case("receive", "mqpg", (_receive("one", "thousands", 1, "one"),), (_ACK.format("one"),)),
        Case("ack", "mqpg", (ack,), (receive,)),
        Case("receive with ack", "mqpg", (_keep(_if_rows(1, "max(receipt)"), chain, "chained"),)),
        Case("nack", "mqpg", (f"select mqpg.nack({_KEPT}, {_IDS})",), (fail,)),
    ]
    for n in (100, 1000):
        send = f"select count(*) from mqpg.send_batch('sent', {_bodies(n)})"
        cases.append(Case(f"send_batch, {n}", "mqpg", (send,), (), n))
    for n, topic, sent in (
        (1, "thousands", ""),
        (100, "thousands", ""),
        (1000, "thousands", ""),
        (100, "singles", " singles"),
        (1000, "singles", " singles"),
    ):
        cases.append(Case(f"receive, ack, {n}{sent}", "mqpg", (_receive("many", topic, n), ack), (), n))
    return cases


CASES = (*_bare(), *_pgq(), *_pgmq(), *_mqpg())
