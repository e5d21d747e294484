"""Callers in REPEATABLE READ or SERIALIZABLE whose snapshot is older than what they ask about."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, refused
from tests.support.waiting import eventually

LEVELS = ["repeatable read", "serializable"]
Call = Callable[[Session, str, int, int], Any]

HALVES: dict[str, Call] = {
    "commit": lambda s, h, i, d: s.commit(h),
    "commit with payload": lambda s, h, i, d: s.commit(h, "2"),
    "rollback": lambda s, h, i, d: s.rollback(h),
    "commit_batch": lambda s, h, i, d: s.call("commit_batch", [h]),
    "commit_batch among others": lambda s, h, i, d: s.call("commit_batch", ["x", h]),
    "rollback_batch": lambda s, h, i, d: s.call("rollback_batch", [h, h]),
    "half_states": lambda s, h, i, d: s.call("half_states", [h]),
    "settle": lambda s, h, i, d: s.call("settle", h, "commit", "test"),
    "rearm": lambda s, h, i, d: s.call("rearm", h),
    "check_wait": lambda s, h, i, d: s.call("check_wait", h),
    "why of a half message": lambda s, h, i, d: s.call("why", h),
    "recall": lambda s, h, i, d: s.call("recall", d),
    "trace": lambda s, h, i, d: s.call("trace", i),
    "acknowledged": lambda s, h, i, d: s.call("acknowledged", i, "g"),
    "why": lambda s, h, i, d: s.call("why", i),
}


@pytest.fixture(params=LEVELS)
def old(request: pytest.FixtureRequest, broker: Broker, mq: Session) -> Session:
    """A session whose snapshot is already taken."""
    session = broker.session()
    session.execute(f"begin isolation level {request.param}")
    session.execute("select 1 from mqpg.tick limit 1")
    return session


@pytest.mark.parametrize("name", HALVES)
def test_what_came_later_is_not_denied(name: str, old: Session, mq: Session) -> None:
    handle, message = mq.prepare("one"), mq.send("one")
    delayed = mq.send("one", delay="1 hour")
    with refused("40001"):
        HALVES[name](old, handle, message, delayed)
    old.execute("rollback")
    if name not in ("rearm", "check_wait"):
        HALVES[name](mq, handle, message, delayed)


def test_what_was_parked_later_is_not_denied(broker: Broker, mq: Session) -> None:
    handle = mq.prepare("one", check_after="10 ms")
    eventually(lambda: (mq.append(), mq.rows("select from pgmq.q_mqpg_oplog"))[1])
    old = broker.session("begin isolation level repeatable read; select 1 from mqpg.tick limit 1")
    mq.execute("select pgmq.archive('mqpg_oplog', q.msg_id) from pgmq.q_mqpg_oplog as q")
    with refused("40001"):
        old.call("rearm", handle)


NAMES: dict[str, Callable[[Session], Any]] = {
    "send": lambda s: s.send("late"),
    "prepare": lambda s: s.prepare("one", group="late"),
    "receive": lambda s: s.receive("late", group="late"),
    "receive for a new group": lambda s: s.receive("one", group="late"),
    "fetch": lambda s: s.call("fetch", "late", 0, 0),
    "seek": lambda s: s.call("seek", "late", "late", "latest"),
    "redrive": lambda s: s.call("redrive", "late", "late"),
    "unsubscribe": lambda s: s.call("unsubscribe", "late", "one"),
    "pause": lambda s: s.call("pause", "late"),
    "alter_producer_group": lambda s: s.call("alter_producer_group", "late"),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_was_made_later_is_not_denied(name: str, old: Session, mq: Session) -> None:
    mq.call("create_topic", "late", 1)
    mq.call("create_producer_group", "late")
    for topic in ("late", "one"):
        mq.call("subscribe", "late", topic)
    with refused("40001"):
        NAMES[name](old)


@pytest.mark.parametrize("call", ["ack", "nack", "extend", "release"])
@pytest.mark.parametrize("subscribed", ["before", "later"])
def test_a_receipt_that_was_issued_later_is_not_denied(call: str, subscribed: str, old: Session, mq: Session) -> None:
    if subscribed == "later":
        mq.call("subscribe", "late", "one")
    mq.sent("one")
    (message,) = mq.receive("one", group="late" if subscribed == "later" else "g")
    more: dict[str, Any] = {"nack": ([message.message_id], "bad"), "extend": ("1 minute",)}
    arguments = more.get(call, ())
    with refused("40001"):
        old.call(call, message.receipt, *arguments)
    old.execute("rollback")
    mq.call(call, message.receipt, *arguments)


@pytest.mark.parametrize("appended", [False, True])
def test_what_does_not_exist_is_unknown(appended: bool, broker: Broker, mq: Session) -> None:
    """Also if its id was given out: a call that is repeated must come to an end."""
    mq.execute("begin")
    handle = mq.prepare("one")
    delayed = mq.send("one", delay="1 hour")
    mq.execute("rollback")
    if appended:
        for _ in range(3):
            mq.sent("one")
    session = broker.session()

    def asks() -> bool:
        """Whether it was denied: any transaction that ends meanwhile, also one of autovacuum, may have made it."""
        session.execute("begin isolation level repeatable read")
        session.execute("select 1 from mqpg.tick limit 1")
        if appended:
            mq.send("one")
        try:
            assert session.commit(handle) == "unknown"
            assert [row.state for row in session.call("half_states", [handle])] == ["unknown"]
            with refused("MQ001"):
                session.call("recall", delayed)
        except psycopg.errors.SerializationFailure:
            return False
        finally:
            session.execute("rollback")
        return True

    eventually(asks)


@pytest.mark.parametrize("level", LEVELS)
def test_names_that_do_not_exist_are_unknown(level: str, mq: Session) -> None:
    def unknown() -> bool:
        """Whether it was denied: see above."""
        mq.execute(f"begin isolation level {level}")
        with pytest.raises(psycopg.Error) as caught:
            mq.send("late")
        mq.execute("rollback")
        assert caught.value.sqlstate in ("MQ003", "40001")
        return caught.value.sqlstate == "MQ003"

    eventually(unknown)


def test_handles_of_others_and_of_the_future_are_unknown(old: Session, mq: Session) -> None:
    handle = mq.prepare("one")
    broker, incarnation, number, nonce = handle.split(".")
    later = f"{broker}.{incarnation}.{int(number) + 10_000_000}.{nonce}"
    for one in ("x", f"{broker[::-1]}.{incarnation}.{number}.{nonce}", later):
        assert old.commit(one) == "unknown"
