"""append by contract: what a call moves, in which order, in which rows, and what it refuses."""

import random
from typing import Any

import pytest

from tests.support.broker import Broker, Session, messages_by_queue, positions, seconds


def test_a_pass_returns_how_many_messages_it_moved(mq: Session) -> None:
    assert mq.append() == 0
    mq.send("one", "1")
    mq.send_batch("t", ["1"] * 10)
    assert mq.append() == 11
    assert mq.append() == 0


def test_a_row_has_at_most_64_runs(mq: Session) -> None:
    ids = [mq.send("one", "1") for _ in range(200)]
    mq.append()
    rows = mq.rows("select base_offset, n, cardinality(first_ids) as runs from mqpg.consume_queue order by 1")
    assert max(r.runs for r in rows) <= 64
    assert len(rows) >= 4
    assert messages_by_queue(mq, "one") == {0: ids}


def test_a_row_has_at_most_4096_messages(mq: Session) -> None:
    ids = mq.sent_batch("one", ["1"] * 10_000)
    assert max(r.n for r in mq.rows("select n from mqpg.consume_queue")) <= 4096
    assert messages_by_queue(mq, "one") == {0: ids}


def test_starts_and_first_ids_are_parallel_and_ascend(mq: Session) -> None:
    for n in (1, 3, 2):
        mq.send_batch("one", ["1"] * n)
    mq.append()
    (row,) = mq.rows("select * from mqpg.consume_queue")
    assert (row.base_offset, row.n, row.starts) == (0, 6, [0, 1, 4])
    assert len(row.first_ids) == 3


def test_both_inserts_append_the_same_sends(mq: Session, broker: Broker, rng: random.Random) -> None:
    """Batches of all sizes to queues of two topics, some committed after a later pass."""
    newest = "from (select t.* from mqpg.tick t order by tick_id desc limit 1) t"
    rows = "select * from mqpg.consume_queue c where c.tick_id > (select max(tick_id) from mqpg.tick)"
    inserts = (
        "_write_offsets_of_sends(t, pg_current_snapshot())",
        "_write_offsets(t, pg_current_snapshot(), t.due_until, true, false, false)",
    )
    for _ in range(6):
        with broker.transaction() as slow:
            slow.send_batch("t", ["1"] * rng.randint(1, 1500))
            mq.sent("one", "1")
        for _ in range(rng.randint(0, 200)):
            mq.send("t", "1", key=str(rng.randint(0, 20)))
            if rng.random() < 0.1:
                mq.send_batch("one", ["1"] * rng.randint(1, 2000))
        appended = []
        for insert in inserts:
            with mq.conn.transaction(force_rollback=True):
                returned = mq.rows(f"select a.messages, a.topic_ids {newest}, mqpg.{insert} a")
                appended.append((returned, sorted(mq.rows(rows), key=str)))
        assert appended[0] == appended[1]
        assert appended[0][1]


@pytest.mark.parametrize("what", ["send", "send_batch", "commit", "commit with a final payload"])
def test_one_alone_is_appended_as_among_others(mq: Session, broker: Broker, what: str) -> None:
    """Beside a transaction that was running in the pass before, which then ends without a message."""
    with broker.transaction() as other:
        other.execute("select pg_current_xact_id()")
        mq.sent("one", "1")
        if what.startswith("commit"):
            mq.commit(mq.prepare("one", "2"), *(["3"] if "final" in what else []))
        else:
            mq.send_batch("one", ["2"] * (900 if what == "send_batch" else 1))
        appended = one_appended_by_both(mq, what.startswith("commit"))
    appended += one_appended_by_both(mq, what.startswith("commit"))
    assert all(each == appended[0] for each in appended)
    assert len(appended[0][1]) == 1


def one_appended_by_both(mq: Session, is_commit: bool) -> list[Any]:
    """What each of two inserts returns and writes."""
    newest = "from (select t.* from mqpg.tick t order by tick_id desc limit 1) t"
    appended = []
    for insert in (
        f"_write_offset_of_one(t, pg_current_snapshot(), {is_commit})",
        f"_write_offsets(t, pg_current_snapshot(), t.due_until, {not is_commit}, {is_commit}, false)",
    ):
        with mq.conn.transaction(force_rollback=True):
            returned = mq.rows(f"select a.messages, a.topic_ids {newest}, mqpg.{insert} a")
            rows = "select * from mqpg.consume_queue c where c.tick_id > (select max(tick_id) from mqpg.tick)"
            appended.append((returned, mq.rows(rows)))
    return appended


def test_a_tick_names_the_topics_that_it_touched(mq: Session) -> None:
    mq.sent("one", "1")
    named = mq.scalar(
        """select array_agg(t.name) from mqpg.tick as k cross join unnest(k.topic_ids) as u(id)
           join mqpg.topic as t on t.topic_id = u.id
           where k.tick_id = (select max(tick_id) from mqpg.tick)"""
    )
    assert named == ["one"]


def test_a_pass_that_moved_something_notifies_once(mq: Session, broker: Broker) -> None:
    listener = broker.session("listen mqpg")
    mq.append()
    mq.send("one", "1")
    mq.sent("t", "1")
    got = list(listener.conn.notifies(timeout=45, stop_after=1))
    assert [n.channel for n in got] == ["mqpg"]
    assert int(got[0].payload) == mq.scalar("select max(tick_id) from mqpg.tick")
    assert list(listener.conn.notifies(timeout=0.05)) == []


def test_producers_never_notify(mq: Session, broker: Broker) -> None:
    listener = broker.session("listen mqpg")
    mq.send("one", "1")
    mq.send_batch("one", ["1"])
    mq.commit(mq.prepare("one", "1"))
    assert list(listener.conn.notifies(timeout=0.1)) == []


def test_max_messages_is_a_target_and_loses_nothing(mq: Session) -> None:
    ids = [mq.send("one", "1") for _ in range(60)]
    passes = []
    while moved := mq.append(10):
        passes.append(moved)
    assert sum(passes) == 60
    assert len(passes) >= 4
    assert messages_by_queue(mq, "one") == {0: ids}


def test_one_transaction_is_not_split_by_max_messages(mq: Session) -> None:
    with mq.transaction():
        ids = [mq.send("one", "1") for _ in range(25)]
    moved = mq.append(10)
    assert moved in (0, 25)
    while mq.append(10):
        pass
    assert messages_by_queue(mq, "one") == {0: ids}


def test_due_messages_are_cut_by_max_messages_too(mq: Session) -> None:
    ids = [mq.send("one", str(i), delay=seconds(0.01)) for i in range(30)]
    mq.execute("select pg_sleep(0.05)")
    for _ in range(20):
        mq.append(7)
    assert messages_by_queue(mq, "one") == {0: ids}


def half_ticks_after(mq: Session, ages: tuple[str, str]) -> int:
    """Append where the two newest ticks are so old, and return how many half ticks that stores.

    All of it must happen within a second of the server, or it is tried again.
    """
    second, count = "select date_trunc('second', clock_timestamp())", "select count(*) from mqpg.half_tick"
    while True:
        for _ in range(2):
            mq.sent("one", "1")
        mq.prepare("one", "1")
        mq.execute("update mqpg.half_tick set at = at - interval '1 hour'")
        before, now = mq.scalar(count), mq.scalar(second)
        for place, age in enumerate(reversed(ages)):
            mq.execute(
                "update mqpg.tick set at = %s - %s::interval where tick_id = (select max(tick_id) from mqpg.tick) - %s",
                *(now, age, place),
            )
        mq.append()
        if mq.scalar(second) == now:
            return int(mq.scalar(count) - before)


@pytest.mark.parametrize(
    ("ticks", "stored"),
    [(("0 s", "0 s"), 0), (("5 s", "0 s"), 1), (("5 s", "2 s"), 1)],
    ids=["two passes in this second", "a long pass", "no pass"],
)
def test_halves_are_looked_for_once_a_second(mq: Session, ticks: tuple[str, str], stored: int) -> None:
    """Passes that take longer than a second each would otherwise keep one another from it."""
    assert half_ticks_after(mq, ticks) == stored


def test_a_message_put_off_comes_once_where_its_first_row_is_due_in_the_same_pass(mq: Session, broker: Broker) -> None:
    """The appender does not run between the end of the recall and the second time the message is due."""
    recaller = broker.session()
    message_id = mq.send("one", "1", key="k", delay=seconds(0.05))
    with recaller.transaction(force_rollback=True):
        recaller.value("recall", message_id)
        mq.execute("select pg_sleep(0.06)")
        assert mq.append() == 0
        assert mq.call("find_by_key", "one", "k")[0].state == "delayed"
    mq.execute("select pg_sleep(1.1)")
    assert mq.append() == 1
    assert positions(mq, "one") == [(0, 0, message_id)]
    found = mq.call("find_by_key", "one", "k")[0]
    assert (found.state, found.queue_offset) == ("appended", 0)


def test_passes_after_a_recalled_message_was_due_write_nothing(mq: Session) -> None:
    message_id = mq.send("one", "1", delay=seconds(0.05))
    assert mq.value("recall", message_id) is True
    mq.execute("select pg_sleep(0.06)")
    assert mq.append() == 0
    with mq.transaction():
        assert mq.append() == 0
        assert mq.scalar("select pg_current_xact_id_if_assigned()") is None


def test_an_open_recall_costs_no_lock_for_each_message_that_is_due(mq: Session, broker: Broker) -> None:
    recaller = broker.session()
    ids = mq.send_batch("one", ["1"] * 500, delay=seconds(0.05))
    with recaller.transaction():
        recaller.value("recall", ids[7])
        mq.execute("select pg_sleep(0.06)")
        with mq.transaction():
            assert mq.append() == 499
            held = mq.scalar("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")
    assert held < 10
    mq.execute("select pg_sleep(1.1)")
    assert mq.append() == 0


def test_a_limit_of_transactions_does_not_end_it(mq: Session) -> None:
    """The messages of one transaction are never split, so each call would be ended."""
    if mq.conn.info.server_version < 170000:
        pytest.skip("PostgreSQL has it from 17 on")
    with mq.transaction():
        mq.execute("set local transaction_timeout = '1 h'")
        mq.append()
        assert mq.scalar("select current_setting('transaction_timeout')") == "0"
