"""Cursors are copied into newer slots in small portions, by keep() and by the consumers themselves."""

import json
import random
import threading
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, refused, seconds
from tests.support.mutation import mutate
from tests.support.retention import age, aged, gone, keep, payloads, roll
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database  # slots roll

_TWICE = "select subscription_id, queue_id, version from mqpg.cursor group by 1, 2, 3 having count(*) > 1"
_LEFT = """
select count(*) from mqpg.subscription as s
join mqpg.topic as t on t.topic_id = s.topic_id
cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
where not exists (
    select from mqpg.cursor as c
    where c.subscription_id = s.subscription_id and c.queue_id = q.queue_id and c.slot = %s)
"""


def many_cursors(mq: Session, topics: int, groups: int) -> None:
    """Insert the rows that create_topic() and subscribe() would, a thousand times as fast."""
    mq.execute(
        "insert into mqpg.topic (name, queues, retention)"
        " select 'many' || i, 8, '7 days' from generate_series(1, %s) as i",
        topics,
    )
    mq.execute(
        "insert into mqpg.subscription (consumer_group, topic_id, mode, start, max_attempts, retry_delay)"
        " select 'group' || i, topic_id, 'exclusive', 'earliest', 16, '10 s'"
        " from mqpg.topic, generate_series(1, %s) as i where name like 'many%%'",
        groups,
    )
    mq.execute(
        "insert into mqpg.cursor"
        " (subscription_id, queue_id, slot, version, committed, claimed, at, action, claims)"
        " select subscription_id, q, 1, 1, 0, 0, clock_timestamp(), 's', '{}'"
        " from mqpg.subscription cross join generate_series(-1, 7) as q where consumer_group like 'group%%'"
    )
    mq.execute("analyze mqpg.cursor, mqpg.subscription, mqpg.topic")


def slot_of(mq: Session, *, group: str = "g", topic: str = "one", queue_id: int = 0) -> int:
    """Return the slot of the newest version."""
    sql = (
        "select slot from mqpg.cursor join mqpg.subscription using (subscription_id) join mqpg.topic using (topic_id)"
        " where consumer_group = %s and name = %s and queue_id = %s order by version desc limit 1"
    )
    return int(mq.scalar(sql, group, topic, queue_id))


def test_ten_thousand_cursors_are_carried_with_at_most_500_locks(mq: Session) -> None:
    many_cursors(mq, topics=100, groups=12)
    age(mq, "0 s")
    locks = 0
    calls: list[list[Any]] = []
    while ("closed", "cursor") not in {row[:2] for call in calls for row in call}:
        with mq.transaction():
            calls.append(mq.call("keep"))
            if "made" not in {row.action for row in calls[-1]}:  # a slot of dedup or delayed has turned
                locks = max(locks, mq.scalar("select count(*) from pg_locks where pid = pg_backend_pid()"))
        age(mq, "6 hours")
        assert len(calls) < 1000
    assert 300 <= locks <= 500
    assert mq.scalar(_LEFT, 2) == 0
    assert mq.rows(_TWICE) == []
    gone(mq, {"cursor_1"}, [])


def test_a_receive_waits_for_the_keep_that_carries_its_queue(mq: Session, broker: Broker) -> None:
    """It would return nothing, as it does where another consumer has the queue."""
    mq.sent("one", "1")
    keeper, consumer = broker.session(), broker.session()
    age(mq, "0 s")
    mutate(mq, "_claim_next", "v_waits < 5", "v_waits < 150")  # A slow machine needs longer than a second.
    broker.watch()
    with keeper.transaction():
        assert ("carried", "cursor") in {row[:2] for row in keeper.call("keep")}
        receiving = broker.blocked(consumer, consumer.receive, "one")
    assert payloads(receiving.result(40)) == [1]
    assert slot_of(mq) == 2


def test_a_receive_leaves_no_lock_behind_that_stops_keep(mq: Session, broker: Broker) -> None:
    """A transaction that found a queue locked stays open, and keep() still carries."""
    mq.sent("one", "1")
    consumer, other = broker.session(), broker.session()
    with consumer.transaction(), other.transaction():
        assert consumer.receive("one")
        assert other.receive("one") == []
        assert any(row[:2] == ("carried", "cursor") for row in aged(mq))


def test_a_queue_that_is_always_inside_a_transaction_is_carried_by_its_holder(mq: Session, broker: Broker) -> None:
    """keep() never finds the queue free, because the next consumer is inside before it looks."""
    mq.sent_batch("one", ["1", "2", "3"])
    consumers = [broker.session() for _ in range(3)]
    transactions = [consumer.transaction() for consumer in consumers]
    transactions[0].__enter__()
    (message,) = consumers[0].receive("one", max_messages=1)
    reported = aged(mq) + keep(mq)
    assert any(row[3].endswith(" 1 in use") for row in reported)
    assert ("closed", "cursor", 1, "all queues are carried") not in reported
    consumers[0].ack(message.receipt)
    for i in (1, 2):
        transactions[i - 1].__exit__(None, None, None)
        transactions[i].__enter__()
        (message,) = consumers[i].receive("one", max_messages=1)
        assert message.payload == i + 1
        reported += keep(mq)
        consumers[i].ack(message.receipt)
    assert ("closed", "cursor", 1, "all queues are carried") in reported
    transactions[2].__exit__(None, None, None)
    assert slot_of(mq) == 2
    assert mq.rows(_TWICE) == []
    assert mq.receive("one") == []


def test_a_receipt_stays_what_it_is_at_each_step_of_its_slots_end(mq: Session) -> None:
    """It is valid or stale also between the keep() that seals the slot and the one that drops it."""
    mq.sent_batch("one", ["1", "2"])
    (taken_over,) = mq.receive("one", max_messages=1, lease="10 ms")
    mq.execute("select pg_sleep(0.02)")
    (valid,) = mq.receive("one", max_messages=1)
    reported = aged(mq)
    while ("dropped", "cursor") not in [row[:2] for row in reported]:
        with refused("MQ009"):
            mq.ack(taken_over.receipt)
        with mq.transaction() as held:
            mq.ack(valid.receipt)
            raise psycopg.Rollback(held)
        reported += [tuple(row) for row in mq.call("keep")]
    assert ("released", "cursor") in [row[:2] for row in reported]
    mq.ack(valid.receipt)


def test_a_holder_that_rolls_back_leaves_its_queue_to_keep(mq: Session, broker: Broker) -> None:
    mq.sent("one", "1")
    with broker.transaction(force_rollback=True) as consumer:
        (message,) = consumer.receive("one")
        aged(mq)
        consumer.ack(message.receipt)
        assert slot_of(consumer) == 2
    assert slot_of(mq) == 1
    keep(mq)
    assert slot_of(mq) == 2
    assert payloads(mq.receive("one")) == [1]


def test_a_queue_that_stays_in_use_lets_no_more_than_four_slots_stand_open(mq: Session, broker: Broker) -> None:
    """A slot was begun at every pass, however many could not be closed yet."""
    unclosed = "select count(*) from mqpg.segment where family = 'cursor' and closed_at is null"
    mq.sent("one", "1")
    with broker.transaction() as consumer:
        (message,) = consumer.receive("one")
        age(mq, "0 s")
        for _ in range(30):
            mq.call("keep")
        assert mq.scalar(unclosed) == 4
        age(mq, "6 hours")
        consumer.ack(message.receipt)
    keep(mq)
    assert mq.scalar(unclosed) == 1
    assert ("made", "cursor") in [row[:2] for row in aged(mq)]
    assert mq.receive("one") == []


def test_a_subscription_that_is_being_made_keeps_its_slot_open(mq: Session, broker: Broker) -> None:
    """keep() cannot see the new cursors, which lie in the older slot."""
    mq.sent("one", "1")
    with broker.transaction() as other:
        other.call("subscribe", "late", "one")
        reported = aged(mq) + keep(mq)
        assert ("blocked", "cursor", 2, "a subscription is being made") in reported
        assert not any(row[:2] == ("closed", "cursor") for row in reported)
    reported = keep(mq)
    assert ("closed", "cursor", 1, "all queues are carried") in reported
    gone(mq, {"cursor_1"}, reported)
    assert payloads(mq.receive("one", group="late")) == [1]


@pytest.mark.parametrize("joins", [False, True])
def test_a_subscription_begins_where_its_transaction_can_write(mq: Session, other: Session, joins: bool) -> None:
    """The transaction wrote cursors before keep() made the new partition, and has every lock already."""
    mq.call("subscribe", "all", "one", mode="broadcast")
    mq.sent("one", "1")

    def begin(name: str) -> None:
        if joins:
            assert other.receive("one", group="all", consumer=name)
        else:
            other.call("subscribe", name, "one")

    with other.transaction():
        assert other.receive("one")
        begin("x")
        aged(mq)
        begin("y")
        keep(mq)
    gone(mq, {"cursor_1"}, keep(mq))
    assert mq.scalar(_LEFT, 2) == 0
    if not joins:
        assert payloads(mq.receive("one", group="x") + mq.receive("one", group="y")) == [1, 1]


def test_a_subscription_under_an_old_snapshot_starts_over(mq: Session, broker: Broker) -> None:
    """It would begin in a slot that is closed, and vanish with it."""
    with broker.snapshot() as other:
        roll(mq, closes=False)
        with refused("40001"):
            other.call("subscribe", "late", "one")
    other.call("subscribe", "late", "one")
    assert slot_of(mq, group="late") == 2


def test_slots_roll_while_transactions_roll_back_and_each_message_takes_effect_once(
    brisk: Session, broker: Broker, rng: random.Random
) -> None:
    """A slot is begun at the first pass, consumers are always inside a transaction, and a third of
    them roll back.

    It does not say how soon the old slot is closed.
    """
    brisk.execute("create table public.effect (payload int)")
    brisk.execute("update mqpg.settings set value = '0 s' where name = 'cursor_slot_age'")
    stop = threading.Event()
    keeper = broker.session()

    def carry() -> int:
        made = 0
        while not stop.is_set():
            made += sum(row[:2] == ("made", "cursor") for row in keeper.call("keep"))
        return made

    def consume(session: Session, chance: random.Random) -> None:
        while not stop.is_set():
            with session.transaction() as tx:
                for message in session.receive("t", max_messages=5):
                    session.execute("insert into public.effect values (%s)", message.payload)
                    session.ack(message.receipt, through=message.queue_offset)
                tx.force_rollback = chance.random() < 0.3

    sent = 0

    def send() -> bool:
        nonlocal sent
        numbers = [str(sent + i) for i in range(50)]
        brisk.sent_batch("t", numbers, keys=numbers)
        sent += 50
        return sent >= 500 or any(thread.done() for thread in threads)

    threads: list[Any] = [broker.background(consume, broker.session(), random.Random(rng.random())) for _ in range(3)]
    carrying = broker.background(carry)
    threads.append(carrying)
    eventually(send, timeout=60, interval=0.1)
    lag = "select sum(lag) from mqpg.subscription_lag where topic = 't'"
    eventually(lambda: brisk.scalar(lag) == 0 or any(t.done() for t in threads), timeout=60, interval=0.1)
    stop.set()
    for thread in threads:
        thread.result(30)
    assert carrying.result() >= 1
    assert [row[0] for row in brisk.rows("select payload from public.effect order by 1")] == list(range(sent))
    assert brisk.rows(_TWICE) == []


# a topic with many queues


def work(mq: Session, call: str, rows: int = 0) -> tuple[int, int]:
    """Return the calls of functions that look at one queue, and the pages that a call takes."""
    mq.execute("set track_functions = 'all'")
    sql = (
        "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions"
        " where funcname in ('_tail', '_cursor', '_claim_to_take_over')"
    )
    with mq.transaction():
        before = mq.scalar(sql)
        plan: Any = mq.scalar(f"explain (analyze, buffers, format json) {call}")
        after = mq.scalar(sql)
    found = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    assert found["Actual Rows"] == rows
    return int(after - before), int(found["Shared Hit Blocks"] + found["Shared Read Blocks"])


def fill_wide(mq: Session) -> None:
    """Send three messages to each queue of the topic, about."""
    mq.sent_batch("wide", ["1"] * 3000, keys=[str(i) for i in range(3000)])


def test_an_empty_receive_of_a_thousand_queues_looks_at_each_in_two_places(brisk: Session) -> None:
    """It called a function for each of the first 16 queues, and looked at cursors and ends apart."""
    brisk.subscribed("wide", queues=1000)
    brisk.execute("update mqpg.topic set retention = '1 hour'")
    call = "select * from mqpg.receive('g', 'wide')"

    def fill_and_skip() -> None:
        fill_wide(brisk)
        brisk.call("seek", "g", "wide", "latest")

    fill_and_skip()
    brisk.receive("wide")
    calls, pages = work(brisk, call)
    assert calls == 0
    assert pages < 1001 * 7
    for _ in range(6):
        fill_and_skip()
        roll(brisk)
    assert brisk.scalar("select count(*) from mqpg.segment where family = 'tick' and dropped_at is null") >= 8
    brisk.receive("wide")
    calls, later = work(brisk, call)
    assert calls == 0
    assert later < pages * 2  # the notes in queue_tail, but no page for each segment


def test_a_receive_of_a_thousand_full_queues_looks_at_the_ends_of_a_few(brisk: Session) -> None:
    """The ends are looked up in the order in which the queues waited, not all of them at first."""
    brisk.subscribed("wide", queues=1000)
    brisk.receive("wide")
    _, empty = work(brisk, "select * from mqpg.receive('g', 'wide')")
    fill_wide(brisk)
    (message,) = brisk.receive("wide", max_messages=1)
    brisk.ack(message.receipt)
    _, pages = work(brisk, "select * from mqpg.receive('g', 'wide', 1)", rows=1)
    assert pages < empty + 400


def test_a_message_in_any_of_a_thousand_queues_is_found(brisk: Session) -> None:
    """The ends of queues lie in closed segments, in queue_tail, or in the newest rows."""
    brisk.subscribed("wide", queues=1000)
    brisk.execute("update mqpg.topic set retention = '1 hour'")
    sent = 0
    for _ in range(3):
        brisk.send_batch("wide", [str(sent + i) for i in range(40)], keys=[str(sent + i) for i in range(40)])
        sent += 40
        brisk.append()
        roll(brisk)
    assert sorted(payloads(brisk.drain("wide"))) == list(range(sent))
    brisk.sent("wide", "7", key="seven")
    (message,) = brisk.receive("wide")
    brisk.nack(message.receipt, [message.message_id], delay=seconds(0))
    assert [(m.payload, m.queue_id) for m in brisk.delivered("wide")] == [(7, -1)]


# a subscription or a topic that ends meanwhile


def expired(mq: Session) -> None:
    mq.call("alter_topic", "one", message_ttl=seconds(0.01), on_expired="dead_letter")
    mq.execute("select pg_sleep(0.05)")


def out_of_attempts(mq: Session) -> None:
    mq.receive("one", lease=seconds(0.01))
    mq.execute("select pg_sleep(0.05)")


@pytest.mark.parametrize(
    ("spoil", "on_failure"), [(expired, "skip"), (out_of_attempts, "skip"), (out_of_attempts, "block_key")]
)
def test_receive_against_unsubscribe_says_that_the_group_has_ended(
    mq: Session, broker: Broker, other: Session, spoil: Any, on_failure: str
) -> None:
    """It makes a dead letter of a subscription that is being deleted."""
    mq.call("alter_subscription", "g", "one", max_attempts=1, on_failure=on_failure)
    mq.sent("one", "1", key="k")
    spoil(mq)
    with mq.transaction():
        mq.call("unsubscribe", "g", "one")
        receiving = broker.blocked(other, other.receive, "one")
    with refused("MQ005", "unsubscribed"):
        receiving.result(45)


def test_a_member_that_joins_a_topic_that_is_being_dropped_waits_for_nobody(mq: Session, broker: Broker) -> None:
    """It would lock the group and wait for the topic, and the drop the other way round."""
    mq.call("subscribe", "all", "one", mode="broadcast")
    other = broker.session("set lock_timeout = '1s'")
    with mq.transaction():
        mq.execute("select from mqpg.topic where name = 'one' for update")  # as drop_topic() begins
        with other.transaction():
            assert other.receive("one", group="all", consumer="x") == []
        mq.call("drop_topic", "one", True)
    with pytest.raises(psycopg.Error):
        other.receive("one", group="all", consumer="x")
