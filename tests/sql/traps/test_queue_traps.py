"""The traps of queues that are added: a key keeps its order, and shows the damage without each rule."""

from __future__ import annotations

import pytest

from tests.support.broker import Broker, Session
from tests.support.growing import MOVED, settle
from tests.support.mutation import mutate

RULES = (
    None,
    ("_await_older_queues", "if (_await_older_queues.subscription).mode = 'shared' then", "if true then"),
    (
        "_open_queues",
        "select r.id from mqpg._running_transactions() r(id)",
        "select r.id from (select '' where false) r(id)",
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule[0] if rule else "whole")
def test_trap_an_added_queue_waits(mq: Session, broker: Broker, rule: tuple[str, str, str] | None) -> None:
    """In which order the two messages of a key come: the first one is committed last."""
    if rule:
        mutate(mq, *rule)
    key, late = mq.scalar(MOVED), broker.session()
    with late.transaction():
        late.send("one", "1", key=key)
        mq.call("alter_topic", "one", queues=2)
        mq.send("one", "2", key=key)
        settle(mq)
        got = mq.drain("one")
    settle(mq)
    while rows := mq.receive("one", max_messages=1):
        got += rows
        mq.ack(rows[0].receipt)
        settle(mq)
    assert [row.payload for row in got] == ([2, 1] if rule else [1, 2])
