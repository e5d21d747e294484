"""Two connections at each lock: which one waits, for how long, which one continues, and what a
REPEATABLE READ caller gets.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.broker import Broker, Session, positions, refused, seconds
from tests.support.waiting import eventually

PATIENCE = "100 ms"


@pytest.fixture
def other(mq: Session, broker: Broker) -> Session:
    """A second connection. No call waits long for a queue."""
    mq.execute("update mqpg.settings set value = %s where name = 'lock_timeout'", PATIENCE)
    return broker.session()


@pytest.fixture
def impatient(other: Session, broker: Broker) -> Session:
    """A connection whose every wait for a lock ends after 100 ms."""
    return broker.session("set lock_timeout = '100ms'")


@contextmanager
def within(limit: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < limit, "it waited"


def filled(mq: Session, topic: str = "one", n: int = 2) -> list[int]:
    return mq.sent_batch(topic, ["1"] * n)


# the lock of a queue's cursor


Call = Callable[[Session, str, list[int]], object]  # by the receipt and the ids of a delivery of `one`

SETTLING: dict[str, Call] = {
    "ack": lambda s, receipt, ids: s.ack(receipt),
    "nack": lambda s, receipt, ids: s.nack(receipt, ids),
    "extend": lambda s, receipt, ids: s.call("extend", receipt, seconds(60)),
    "release": lambda s, receipt, ids: s.call("release", receipt),
    "seek": lambda s, receipt, ids: s.call("seek", "g", "one", "earliest"),
    "purge_topic": lambda s, receipt, ids: s.call("purge_topic", "one"),
}
CHANGING: dict[str, Call] = {
    "alter_subscription": lambda s, receipt, ids: s.call("alter_subscription", "g", "one", max_attempts=5),
    "pause": lambda s, receipt, ids: s.call("pause", "one", "g"),
    "resume": lambda s, receipt, ids: s.call("resume", "one", "g"),
    "purge_topic": SETTLING["purge_topic"],
    "unsubscribe": lambda s, receipt, ids: s.call("unsubscribe", "g", "one"),
    "drop_topic": lambda s, receipt, ids: s.call("drop_topic", "one", True),
}
OTHERS: dict[str, Call] = {
    "receive": lambda s, receipt, ids: s.receive("one", group="pin", consumer="x"),
    "unpin": lambda s, receipt, ids: s.call("unpin", "pin", "one"),
    "bury": lambda s, receipt, ids: s.nack(receipt, ids[:1], final=True),
    "alter_topic": lambda s, receipt, ids: s.call("alter_topic", "one", max_bytes=7),
    "pause of all": lambda s, receipt, ids: s.call("pause", "one"),
    "alter_producer_group": lambda s, receipt, ids: s.call("alter_producer_group", "pg", max_checks=5),
    "drop_producer_group": lambda s, receipt, ids: s.call("drop_producer_group", "pg"),
}
# What another call waits for, and the call.
WAITS = [
    *(("extend", call) for call in SETTLING),
    ("receive", "unpin"),
    ("bury", "unsubscribe"),
    ("bury", "drop_topic"),
    ("unsubscribe", "bury"),
    *(("alter_subscription", call) for call in CHANGING),
    *(("alter_topic", call) for call in ("alter_topic", "pause of all", "drop_topic")),
    *(("alter_producer_group", call) for call in ("alter_producer_group", "drop_producer_group")),
]


@pytest.mark.parametrize(("held", "call"), WAITS)
def test_a_call_waits_for_a_lock_with_a_time_out(mq: Session, other: Session, held: str, call: str) -> None:
    calls = SETTLING | CHANGING | OTHERS
    mq.call("subscribe", "pin", "one", mode="pinned")
    ids, receipt = filled(mq), mq.receive("one")[0].receipt
    with mq.transaction(force_rollback=True):
        calls[held](mq, receipt, ids)
        with within(10), refused("55P03"):
            calls[call](other, receipt, ids)
    calls[call](other, receipt, ids)
    assert other.scalar("show lock_timeout") == "0"


@pytest.mark.parametrize("call", ["purge_topic", "seek", "unpin"])
def test_who_moves_all_queues_waits_for_open_receipts_and_stops_new_ones(
    mq: Session, broker: Broker, call: str
) -> None:
    """The one lock of a subscription excludes each of its queues, in both directions."""
    mode = "pinned" if call == "unpin" else "exclusive"
    mq.call("subscribe", "p", "t", mode=mode)
    mq.execute("select mqpg.send('t', '1', key => i::text) from generate_series(1, 20) i")
    mq.append()
    move = {
        "purge_topic": lambda s: s.call("purge_topic", "t"),
        "seek": lambda s: s.call("seek", "p", "t", "latest"),
        "unpin": lambda s: s.call("unpin", "p", "t"),
    }[call]
    named = {"consumer": "x"} if mode == "pinned" else {}
    consumer, mover, other = broker.session(), broker.session(), broker.session()
    with consumer.transaction():
        (message,) = consumer.receive("t", group="p", max_messages=1, **named)
        moving = broker.blocked(mover, move, mover)
        assert other.receive("t", group="p", **named) == []  # it does not overtake
        consumer.ack(message.receipt)
    moving.result(45)
    mq.sent_batch("t", ["2"] * 4)
    (message, *_) = mq.receive("t", group="p", max_messages=1, **named)
    with mover.transaction():
        move(mover)
        assert other.receive("t", group="p", **named) == []
        other.execute("update mqpg.settings set value = '100 ms' where name = 'lock_timeout'")
        with refused("55P03"):
            other.ack(message.receipt)


def test_an_ack_that_gets_the_lock_in_time_counts(mq: Session, broker: Broker) -> None:
    filled(mq)
    receipt = mq.receive("one", max_messages=1)[0].receipt
    other = broker.session()
    with mq.transaction():
        mq.call("extend", receipt, seconds(60))
        acking = broker.blocked(other, other.ack, receipt)
    acking.result(45)
    with refused("MQ008"):
        mq.call("release", receipt)


# calls of the appender


def test_a_pass_waits_for_the_pass_before(mq: Session, broker: Broker, impatient: Session) -> None:
    ids = filled(mq, n=1)
    other = broker.session()
    with mq.transaction():
        assert mq.append() == 0
        ids += [other.send("one", "2")]
        with refused("55P03"):
            impatient.append()
        passing = broker.blocked(other, other.append)
    assert passing.result(45) == 1
    assert [m for _, _, m in positions(mq, "one")] == ids


def test_nobody_waits_for_another_half_pass_and_no_half_is_forgotten(mq: Session, impatient: Session) -> None:
    """The session that has the lock does the same work for all."""
    mq.call("create_producer_group", "soon", check_after=seconds(0.01))
    handle = mq.prepare("one", "1", "soon")
    mq.execute("select pg_sleep(0.12)")
    with mq.transaction():
        assert [row.handle for row in mq.call("due_checks", "soon", 10, seconds(0.01))] == [handle]
        with within(10):
            assert impatient.call("due_checks", "soon") == []
            assert impatient.value("compensate") == 0
    eventually(lambda: [row.handle for row in impatient.call("due_checks", "soon")] == [handle])


def test_a_second_keeper_has_nothing_to_do(mq: Session, other: Session) -> None:
    mq.execute("update mqpg.settings set value = '5' where name = 'segments_ahead'")
    with mq.transaction(force_rollback=True):
        assert mq.call("keep")
        with within(10):
            assert other.call("keep") == []
    assert other.call("keep")


@pytest.mark.parametrize("call", ["subscribe", "seek"])
def test_who_begins_at_the_oldest_offset_keeps_the_keeper_from_moving_it(
    mq: Session, other: Session, call: str
) -> None:
    """The test holds the keeper's side of the lock of a topic.

    A member that joins a broadcast group does not wait for it.
    """
    mq.call("subscribe", "all", "one", mode="broadcast")
    filled(mq)
    calls: dict[str, Callable[[], object]] = {
        "subscribe": lambda: other.call("subscribe", "new", "one"),
        "seek": lambda: other.call("seek", "g", "one", "earliest"),
    }
    with mq.transaction():
        mq.execute("select pg_advisory_xact_lock(1836150838, 0)")
        with within(10), refused("55P03"):
            calls[call]()
        with within(10):
            assert other.receive("one", group="all", consumer="x") == []
    calls[call]()
    assert other.receive("one", group="all", consumer="x")
    with other.transaction():
        calls["subscribe"]()
        other.call("seek", "g", "one", "earliest")
        assert other.receive("one", group="all", consumer="y")
        sql = "select pg_try_advisory_xact_lock(1836150838, 0)"
        assert mq.scalar(sql) is False


# recall


def test_recalls_of_one_message_are_one_after_the_other(mq: Session, broker: Broker, impatient: Session) -> None:
    first, second = mq.send_batch("one", ["1"] * 2, delay=seconds(60))
    other = broker.session()
    with mq.transaction():
        assert mq.value("recall", first) is True
        with refused("55P03"):
            impatient.value("recall", first)
        assert impatient.value("recall", second) is True
        recalling = broker.blocked(other, other.value, "recall", first)
    assert recalling.result(45) is True


def test_a_recall_waits_for_the_pass_that_delivers_the_message(mq: Session, broker: Broker, impatient: Session) -> None:
    message_id = mq.send("one", "1", delay=seconds(0.02))
    other = broker.session()
    mq.execute("select pg_sleep(0.03)")
    with mq.transaction():
        assert mq.append() == 1
        with refused("55P03"):
            impatient.value("recall", message_id)
        recalling = broker.blocked(other, other.value, "recall", message_id)
    assert recalling.result(45) is False


# the key of a decision

DECIDING: dict[str, Callable[[Session, str], str]] = {
    "commit": lambda s, handle: s.commit(handle),
    "rollback": lambda s, handle: s.rollback(handle),
    "commit_batch": lambda s, handle: str(s.call("commit_batch", [handle])[0].outcome),
    "rollback_batch": lambda s, handle: str(s.call("rollback_batch", [handle])[0].outcome),
    "settle": lambda s, handle: str(s.value("settle", handle, "rollback", "said so")),
}


@pytest.mark.parametrize("second", DECIDING)
def test_the_second_decider_waits_and_is_told_what_stands(
    mq: Session, broker: Broker, impatient: Session, second: str
) -> None:
    other, handle = broker.session(), mq.prepare("one", "1")
    with mq.transaction():
        assert mq.commit(handle) == "committed"
        with refused("55P03"):
            DECIDING[second](impatient, handle)
        deciding = broker.blocked(other, DECIDING[second], other, handle)
    assert deciding.result(45) == "already_committed"


@pytest.mark.parametrize("second", DECIDING)
def test_the_second_decider_decides_when_the_first_rolls_back(mq: Session, broker: Broker, second: str) -> None:
    other, handle = broker.session(), mq.prepare("one", "1")
    with mq.transaction(force_rollback=True):
        mq.commit(handle)
        deciding = broker.blocked(other, DECIDING[second], other, handle)
    assert deciding.result(45) == ("committed" if "commit" in second else "rolled_back")


# dedup ids


@pytest.mark.parametrize("commits", [True, False])
def test_a_dedup_id_that_is_pending_is_waited_for(
    mq: Session, broker: Broker, impatient: Session, commits: bool
) -> None:
    other = broker.session()
    with mq.transaction() as tx:
        first = mq.send("one", "1", dedup_id="d")
        with refused("55P03"):
            impatient.send("one", "2", dedup_id="d")
        sending = broker.blocked(other, other.send, "one", "2", dedup_id="d")
        tx.force_rollback = not commits
    assert (sending.result(45) == first) is commits
    assert mq.append() == 1


def test_a_dedup_id_of_a_half_that_is_pending_is_waited_for(mq: Session, broker: Broker) -> None:
    other = broker.session()
    with mq.transaction():
        first = mq.prepare("one", "1", dedup_id="d")
        preparing = broker.blocked(other, other.prepare, "one", "1", dedup_id="d")
    assert preparing.result(45) == first


# the key of the ledger


@pytest.mark.parametrize("checker", ["ledger", "function"])
@pytest.mark.parametrize("exhausted", [False, True])
def test_a_check_back_waits_a_moment_only_for_a_decision_under_way(
    mq: Session, other: Session, checker: str, exhausted: bool
) -> None:
    """Otherwise one forgotten transaction would stop all check-backs.

    No fence contradicts the decision afterwards.
    """
    mq.execute(
        "create or replace function public.shop_says(handle text, key text, headers jsonb, payload json)"
        " returns mqpg.verdict security definer language sql as $$ select 'rollback'::mqpg.verdict $$"
    )
    target = {"checker_target": "public.shop_says"} if checker == "function" else {}
    named = {"checker": checker, "check_after": seconds(0.01), "max_checks": 1, "on_exhausted": "rollback"}
    mq.call("create_producer_group", "held", **named, **target)
    held, free = mq.prepare("one", "1", "held"), mq.prepare("one", "1", "held")
    if exhausted:
        mq.execute(
            "insert into mqpg.check_log (message_id, at, event, by) select unnest(%s::bigint[]), clock_timestamp(), 'asked', 'x'",
            [int(handle.split(".")[2]) for handle in (held, free)],
        )
    mq.execute("select pg_sleep(0.12)")
    with mq.transaction():
        mq.commit(held)
        with within(10):
            assert other.value("compensate") == 2
        assert other.rollback(free) == "already_rolled_back"
        assert other.scalar("select count(*) from mqpg.ledger where handle = %s", held) == 0
    assert other.commit(held) == "already_committed"


@pytest.mark.parametrize("verdict", ["commit", "rollback", "wait"])
@pytest.mark.parametrize("decider", ["commit", "settle"])
def test_an_answer_from_outside_waits_a_moment_only_for_a_decision_under_way(
    mq: Session, other: Session, verdict: str, decider: str
) -> None:
    """The answer counts as wait, so the compensator continues with other halves.

    The decision under way remains.
    """
    mq.call("create_producer_group", "held", checker="due_checks", check_after=seconds(0.01))
    handle = mq.prepare("one", "1", "held")
    mq.execute("select pg_sleep(0.12)")
    assert [check.handle for check in mq.call("due_checks", "held")] == [handle]
    answer = "select mqpg._answer(%s, %s::text::mqpg.verdict, 'url shop', 'looked', null, %s)"
    with mq.transaction():
        if decider == "commit":
            mq.commit(handle)
        else:
            mq.call("settle", handle, "commit", "asked the shop")
        with within(10):
            assert other.scalar(answer, handle, verdict, None) is None
    assert other.scalar(answer, handle, "rollback", None) == "already_committed"
    events = [row[0] for row in mq.rows("select event from mqpg.check_log order by at")]
    assert events == (["asked", "waited"] if decider == "commit" else ["asked", "settled"])


def test_two_local_transactions_of_one_half_are_one(mq: Session, broker: Broker) -> None:
    handle, other = mq.prepare("one", "1"), broker.session()
    with mq.transaction():
        mq.call("local_begin", handle)
        beginning = broker.blocked(other, other.call, "local_begin", handle)
    with refused("MQ018"):
        beginning.result(45)


# changes of a subscription and of a producer group


ALTERED: dict[str, tuple[Any, ...]] = {
    "alter_subscription": ("one", "max_attempts", 5, "retry_delay", seconds(7), "subscription"),
    "alter_producer_group": (None, "max_checks", 5, "check_after", seconds(7), "producer_group"),
}


@pytest.mark.parametrize("call", ALTERED)
def test_two_changes_at_once_are_both_there(mq: Session, broker: Broker, call: str) -> None:
    topic, name, value, other_name, other_value, table = ALTERED[call]
    who = ("g", topic) if topic else ("pg",)
    other = broker.session()
    with mq.transaction():
        mq.call(call, *who, **{name: value})
        altering = broker.blocked(other, other.call, call, *who, **{other_name: other_value})
    altering.result(45)
    sql = f"select count(*) from mqpg.{table} where ({name}, {other_name}) = (%s, %s)"
    assert mq.scalar(sql, value, other_value) == 1


@pytest.mark.parametrize("call", ALTERED)
def test_a_change_of_what_ends_meanwhile_is_refused(mq: Session, broker: Broker, call: str) -> None:
    topic, name, value, *_ = ALTERED[call]
    who = ("g", topic) if topic else ("pg",)
    other = broker.session()
    with mq.transaction():
        mq.call("unsubscribe" if topic else "drop_producer_group", *who)
        altering = broker.blocked(other, other.call, call, *who, **{name: value})
    with refused("MQ005" if topic else "MQ004", "meanwhile"):
        altering.result(45)


# dead letters


@pytest.mark.parametrize("how", ["final", "last attempt", "last retry", "blocking"])
def test_a_last_nack_while_the_group_ends_is_refused(mq: Session, other: Session, broker: Broker, how: str) -> None:
    policy = "block_queue" if how == "blocking" else "skip"
    mq.call("subscribe", "n", "one", max_attempts=2 if how == "last retry" else 1, on_failure=policy)
    filled(mq, n=1)
    (message,) = mq.receive("one", group="n")
    if how == "last retry":
        mq.nack(message.receipt, [message.message_id], delay=seconds(0))
        (message,) = eventually(lambda: (mq.append(), mq.receive("one", group="n"))[1])
    mq.execute("update mqpg.settings set value = '10 s' where name = 'lock_timeout'")
    with mq.transaction():
        mq.call("unsubscribe", "n", "one")
        nacking = broker.blocked(other, other.nack, message.receipt, [message.message_id], final=how == "final")
    with refused("MQ007", "subscription"):
        nacking.result(45)


# callers that read one snapshot


@contextmanager
def old_snapshot(session: Session) -> Iterator[None]:
    """Require that the block fails with 40001.

    Its transaction took its snapshot before what `session` does next.
    """
    with refused("40001"), session.snapshot():
        yield


@pytest.mark.parametrize("call", ["ack", "nack", "extend", "release", "seek"])
def test_settling_with_an_old_snapshot_is_told_to_start_over(mq: Session, other: Session, call: str) -> None:
    ids = filled(mq)
    receipt = mq.receive("one")[0].receipt
    with old_snapshot(other):
        mq.call("extend", receipt, seconds(60))
        SETTLING[call](other, receipt, ids)
    SETTLING[call](other, receipt, ids)


@pytest.mark.parametrize("call", DECIDING)
def test_a_decision_with_an_old_snapshot_is_told_to_start_over(mq: Session, other: Session, call: str) -> None:
    handle = mq.prepare("one", "1")
    with old_snapshot(other):
        mq.commit(handle)
        DECIDING[call](other, handle)
    assert DECIDING[call](other, handle) == "already_committed"


def test_a_dedup_id_with_an_old_snapshot_is_told_to_start_over(mq: Session, other: Session) -> None:
    with old_snapshot(other):
        first = mq.send("one", "1", dedup_id="d")
        other.send("one", "2", dedup_id="d")
    assert other.send("one", "2", dedup_id="d") == first


def test_a_recall_with_an_old_snapshot_is_told_to_start_over(mq: Session, other: Session) -> None:
    message_id = mq.send("one", "1", delay=seconds(60))
    with old_snapshot(other):
        mq.value("recall", message_id)
        other.value("recall", message_id)
    assert other.value("recall", message_id) is True


def test_a_member_that_joins_with_an_old_snapshot_is_told_to_start_over(mq: Session, other: Session) -> None:
    mq.call("subscribe", "all", "one", mode="broadcast")
    filled(mq)
    with old_snapshot(other):
        mq.receive("one", group="all", consumer="x", max_messages=1)
        other.receive("one", group="all", consumer="x")
    assert mq.scalar("select count(*) from mqpg.subscription where member = 'x'") == 1
