"""What a pass of append() costs for each message, as counts of the executor.

The plans are generic, so the planner expects few rows whatever comes. Their shape must stay linear
nevertheless. Counts say so on a busy machine too, where times do not.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session
from tests.support.waiting import eventually

SORTS = {"Sort", "Incremental Sort"}
Node = dict[str, Any]


@contextmanager
def explained(session: Session) -> Iterator[list[Node]]:
    """Collect the plan nodes of all statements inside the functions that the session calls."""
    nodes: list[Node] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        _, _, plan = (diagnostic.message_primary or "").partition("plan:\n")
        if plan:
            nodes.extend(walk(json.loads(plan)["Plan"]))

    session.execute("load 'auto_explain'")
    for name, value in {
        "auto_explain.log_nested_statements": "on",
        "auto_explain.log_analyze": "on",
        "auto_explain.log_timing": "off",
        "auto_explain.log_format": "json",
        "auto_explain.log_min_duration": "0",
        "client_min_messages": "log",
    }.items():
        session.execute(f"set {name} = {value}")
    session.conn.add_notice_handler(note)
    try:
        yield nodes
    finally:
        session.conn.remove_notice_handler(note)
        session.execute("set auto_explain.log_min_duration = -1")


def walk(node: Node) -> Iterator[Node]:
    yield node
    for below in node.get("Plans", ()):
        yield from walk(below)


def rows(node: Node) -> int:
    """Rows that the node returned or threw away, in all its loops."""
    thrown_away = ("Rows Removed by Filter", "Rows Removed by Join Filter")
    each = node["Actual Rows"] + sum(node.get(name, 0) for name in thrown_away)
    return round(each * node["Actual Loops"])


def append_explained(broker: Broker) -> tuple[int, list[Node]]:
    """One pass in a new session, so that its plans are made with the newest statistics."""
    appender = broker.session()
    with explained(appender) as nodes:
        messages = appender.append()
    assert nodes, "auto_explain said nothing"
    return messages, nodes


def test_many_single_sends_in_one_transaction_are_sorted_twice(mq: Session, broker: Broker) -> None:
    """Once into the order of each queue, and once into rows of the consume queue."""
    mq.execute("select count(mqpg.send('t', '1'::text)) from generate_series(1, 3000)")
    messages, nodes = append_explained(broker)
    assert messages == 3000
    assert sum(rows(n) for n in nodes if n["Node Type"] in SORTS) < 2 * messages + 500
    assert max(rows(n) for n in nodes) <= messages


def test_a_pass_far_below_its_target_looks_for_no_cut(mq: Session, broker: Broker) -> None:
    mq.execute(
        """create or replace function mqpg._snapshot_of_backlog_part(
               last_tick mqpg.tick, s1 pg_snapshot, max_messages int) returns pg_snapshot
           language plpgsql as $$ begin raise exception 'it looked for a cut'; end $$"""
    )
    for _ in range(2):
        mq.send("one", "1")
        mq.send("t", "1")
        assert broker.session().append(100_000) == 2
        mq.commit(mq.prepare("t", "1"))
        assert broker.session().append(100_000) == 1
    mq.send("one", "1")
    with pytest.raises(psycopg.errors.RaiseException, match="looked for a cut"):
        mq.append(1)


def test_a_pass_looks_up_the_tail_of_a_queue_once(mq: Session, broker: Broker) -> None:
    mq.execute("select count(mqpg.send('t', '1'::text)) from generate_series(1, 3000)")
    appender = broker.session("set track_functions = 'pl'")
    with appender.transaction():
        assert appender.append() == 3000
        assert appender.scalar("select calls from pg_stat_xact_user_functions where funcname = '_tail'") == 4


def test_delayed_messages_due_at_once_are_not_compared_with_each_other(mq: Session, broker: Broker) -> None:
    """With statistics that know many decisions and few delayed rows, the planner once read all
    decisions first and compared each with each due message.
    """
    for _ in range(2):
        mq.execute("select count(mqpg.send('t', '1'::text, delay => interval '1 ms')) from generate_series(1, 5000)")
        eventually(lambda: mq.scalar("select clock_timestamp() > max(visible_at) from mqpg.delayed"))
        mq.execute("analyze mqpg.op_log")
        mq.execute("analyze mqpg.delayed")
        messages, nodes = append_explained(broker)
        assert messages == 5000
    assert max(rows(n) for n in nodes) <= 2 * messages
