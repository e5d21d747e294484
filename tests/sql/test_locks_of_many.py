"""A transaction over many messages takes as many locks as one over a few: all sessions share the lock table."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.broker import Broker, Session
from tests.support.retention import retain, roll
from tests.support.waiting import eventually

FEW, MANY = 100, 1000
LOCKS = "select count(*) from pg_locks where pid = pg_backend_pid()"


def delayed(mq: Session, n: int) -> list[int]:
    return [row[0] for row in mq.rows("select mqpg.send('t', '1', delay => '1 hour') from generate_series(1, %s)", n)]


def halves(mq: Session, n: int) -> list[str]:
    return [row[0] for row in mq.rows("select mqpg.prepare('t', '1', 'pg') from generate_series(1, %s)", n)]


def sent(mq: Session, n: int) -> list[int]:
    return mq.sent_batch("t", ["1"] * n)


def each(function: str, kind: str) -> Callable[[Session, list[Any]], object]:
    return lambda mq, given: mq.execute(f"select mqpg.{function}(u.one) from unnest(%s::{kind}[]) as u(one)", given)


def nack_all(mq: Session, ids: list[int]) -> None:
    while got := mq.receive("t", max_messages=100):
        mq.nack(got[0].receipt, [row.message_id for row in got])


CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "recall": (delayed, each("recall", "bigint")),
    "commit": (halves, each("commit", "text")),
    "rollback": (halves, each("rollback", "text")),
    "commit_batch": (halves, lambda mq, given: mq.call("commit_batch", given)),
    "settle": (halves, lambda mq, given: mq.execute("select mqpg.settle(u.h, 'commit', 'x') from unnest(%s::text[]) u(h)", given)),
    "send with dedup ids": (
        lambda mq, n: n,
        lambda mq, n: mq.execute("select mqpg.send('t', '1', dedup_id => gen_random_uuid()::text) from generate_series(1, %s)", n),
    ),
    "send the same dedup ids": (
        lambda mq, n: n,
        lambda mq, n: mq.execute("select mqpg.send('t', '1', dedup_id => (i %% 50)::text) from generate_series(1, %s) i", n),
    ),
    "receive and nack": (sent, nack_all),
    "receive and ack": (sent, lambda mq, ids: mq.drain("t", max_messages=100)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_locks_do_not_grow_with_messages(name: str, mq: Session) -> None:
    before, work = CALLS[name]
    taken = []
    # The first one also has the locks of plans that are made once for each session.
    for n in (FEW, FEW, MANY):
        given = before(mq, n)
        mq.execute("begin")
        work(mq, given)
        taken.append(mq.scalar(LOCKS))
        mq.execute("commit")
    assert taken[2] <= taken[1] + 20


def test_other_messages_are_due_while_many_are_recalled(broker: Broker, mq: Session) -> None:
    many = mq.rows("select mqpg.send('t', '1', delay => '0.5 s') from generate_series(1, 300)")
    others = {mq.send("t", delay="0.5 s") for _ in range(20)}
    open_session = broker.session("begin")
    open_session.execute("select mqpg.recall(u.id) from unnest(%s) as u(id)", [row[0] for row in many])

    def delivered() -> bool:
        others.difference_update(row.message_id for row in mq.delivered("t"))
        return not others

    eventually(delivered)
    open_session.execute("commit")
    mq.execute("select pg_sleep(1.5)")
    assert not mq.delivered("t")


def test_what_many_recalls_gave_back_is_due(broker: Broker, mq: Session) -> None:
    many = {row[0] for row in mq.rows("select mqpg.send('t', '1', delay => '0.3 s') from generate_series(1, 200)")}
    open_session = broker.session("begin")
    open_session.execute("select mqpg.recall(u.id) from unnest(%s) as u(id)", list(many))
    mq.execute("select pg_sleep(0.4)")
    assert not mq.delivered("t")
    open_session.execute("rollback")

    def delivered() -> bool:
        many.difference_update(row.message_id for row in mq.delivered("t"))
        return not many

    eventually(delivered)


# queues


QUEUES = 300


@pytest.fixture
def wide(mq: Session) -> Session:
    """A topic of many queues, each with a message, and one session that knows its plans."""
    mq.subscribed("wide", queues=QUEUES)
    keys = "select min(k::text) from generate_series(1, 5000) k group by mqpg._queue_of(k::text, %s)"
    mq.sent_batch("wide", ["1"] * QUEUES, keys=[row[0] for row in mq.rows(keys, QUEUES)])
    return mq


def advisory(mq: Session) -> int:
    return int(mq.scalar("select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'"))


def test_a_reader_of_many_queues_follows_with_few_locks(wide: Session) -> None:
    with wide.transaction():
        wide.execute("select mqpg.advance('g', 'wide', %s::int[], %s::bigint[])", list(range(QUEUES)), [1] * QUEUES)
        assert advisory(wide) < 10
    assert wide.scalar("select sum(lag) from mqpg.subscription_lag where topic = 'wide'") == 0


@pytest.mark.parametrize("used", [False, True])
def test_leases_of_many_queues_are_shortened_with_few_locks(wide: Session, broker: Broker, used: bool) -> None:
    while wide.receive("wide", lease="2 hours"):
        pass
    wide.execute("update mqpg.cursor set at = at + interval '1 hour' where claims <> '{}'")
    with broker.transaction() as user:
        if used:
            user.call("seek", "g", "wide", "earliest", queue_id=0)
        with wide.transaction():
            wide.execute("select mqpg._shorten_leases('1 hour')")
            assert advisory(wide) < (260 if used else 10)
    shortened = "select count(*) from mqpg.cursor where action = 'e' and queue_id <> 0"
    assert wide.scalar(shortened) == (250 if used else QUEUES - 1)


def test_a_filter_is_searched_through_many_queues_in_several_calls(wide: Session) -> None:
    wide.execute("update mqpg.settings set value = '1 hour' where name = 'filter_time'")
    wide.call("subscribe", "f", "wide", filter="$ == 2")
    for passed in (250, QUEUES):
        with wide.transaction():
            assert wide.receive("wide", group="f") == []
            assert advisory(wide) < 260
        assert wide.scalar("select count(*) from mqpg.cursor where action = 'f'") == passed


@pytest.mark.own_database  # segments roll
def test_policies_apply_to_many_queues_in_several_calls(wide: Session) -> None:
    wide.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    retain(wide, "0 s")
    roll(wide)
    wide.call("alter_topic", "wide", lose_after="1 second")  # not before: a slow roll() would lose them
    wide.execute("update mqpg.segment set closed_at = closed_at - interval '1 hour' where closed_at is not null")
    lost = []
    while (left := wide.scalar("select count(*) from mqpg.losses")) < QUEUES:
        with wide.transaction():
            wide.rows("select * from mqpg.keep()")
            lost.append(wide.scalar("select count(*) from mqpg.losses") - left)
            assert advisory(wide) < 280
    assert max(lost) <= 250
