"""`receive(ack => …)`: one call acknowledges a delivery and takes the next one."""

from typing import Any

import pytest

from tests.support.broker import Broker, Session, cut_off, offsets, refused, seconds, spread
from tests.support.waiting import eventually

MODES = ["exclusive", "shared", "pinned", "broadcast"]


@pytest.fixture(params=MODES)
def moded(request: pytest.FixtureRequest, mq: Session) -> Session:
    """A broker whose group `s` reads topic `one`, with six messages, in each mode."""
    mq.call("subscribe", "s", "one", mode=request.param, retry_delay=seconds(0))
    mq.sent_batch("one", [str(n) for n in range(6)])
    return mq


def receive(mq: Session, most: int = 2, **named: object) -> list[Any]:
    return mq.receive("one", group="s", consumer="me", max_messages=most, **named)


def versions(mq: Session) -> list[Any]:
    """Action, committed, claimed and number of claims of each version of the queue of `s`."""
    return mq.rows("""
        select c.action::text, c.committed, c.claimed, cardinality(c.claims)
        from mqpg.cursor c join mqpg.subscription s using (subscription_id)
        where s.consumer_group = 's' and c.queue_id = 0 and (s.member <> '' or s.mode <> 'broadcast')
        order by c.version
    """)


def test_a_backlog_in_calls_of_one_version_each(moded: Session) -> None:
    got: list[Any] = []
    receipt: Any = None
    while rows := receive(moded, ack=receipt):
        got += offsets(rows)
        receipt = rows[0].receipt
    assert got == list(range(6))
    assert versions(moded) == [
        ("s", 0, 0, 0), ("r", 0, 2, 1), ("b", 2, 4, 1), ("b", 4, 6, 1), ("a", 6, 6, 0),
    ]  # fmt: skip
    with refused("MQ008"):
        moded.call("release", receipt)


def test_an_old_snapshot_loses_no_acknowledgement(mq: Session, other: Session) -> None:
    """The claim was extended since, and the next messages are of another queue."""
    spread(mq, 40)
    receipt = mq.receive("t")[0].receipt
    with refused("40001"), other.snapshot():
        mq.call("extend", receipt, seconds(60))
        other.receive("t", ack=receipt)
    mq.ack(receipt)


def test_a_receipt_that_was_acknowledged_so_is_spent(moded: Session) -> None:
    first = receive(moded)[0].receipt
    second = receive(moded, ack=first)[0].receipt
    before = versions(moded)
    with refused("MQ008"):
        moded.call("release", first)
    moded.ack(first)
    assert versions(moded) == before
    moded.ack(second)
    assert offsets(receive(moded)) == [4, 5]


def test_what_is_left_of_a_delivery(moded: Session) -> None:
    """Messages that were acknowledged or nacked before do not come again, nor do the others."""
    first = receive(moded, 3)
    moded.ack(first[0].receipt, offsets=[1])
    moded.nack(first[0].receipt, [first[2].message_id])
    assert offsets(receive(moded, 3, ack=first[0].receipt)) == [3, 4, 5]
    moded.append()
    assert [(row.queue_id, row.payload) for row in receive(moded)] == [(-1, 2)]


def test_nothing_is_taken_where_the_receipt_is_refused(moded: Session, broker: Broker) -> None:
    moded.call("subscribe", "g2", "one")
    stale = receive(moded, lease=seconds(0.01))[0].receipt
    moded.execute("select pg_sleep(0.02)")
    receive(moded)
    foreign = moded.receive("one", group="g2")[0].receipt
    before = moded.rows("select * from mqpg.cursor order by 1, 2, 3, 4, 5, 6, 7, 8")
    for receipt, code in (
        (stale, "MQ009"),
        (foreign, "MQ001"),
        (stale + "0", "MQ007"),
        ("", "MQ007"),
        ("1.0", "MQ007"),
    ):
        with refused(code):
            receive(moded, ack=receipt)
    assert moded.rows("select * from mqpg.cursor order by 1, 2, 3, 4, 5, 6, 7, 8") == before


def test_the_receipt_of_another_member(mq: Session) -> None:
    mq.call("subscribe", "s", "one", mode="broadcast")
    mq.sent_batch("one", ["1", "2"])
    mine = receive(mq)[0].receipt
    with refused("MQ001", "for consumer"):
        mq.receive("one", group="s", consumer="you", ack=mine)
    mq.ack(mine)


def test_a_receipt_of_another_while_the_member_is_being_made(mq: Session, broker: Broker) -> None:
    mq.call("subscribe", "s", "one", mode="broadcast")
    mq.sent("one")
    receipt = receive(mq)[0].receipt
    parent = mq.scalar("select subscription_id from mqpg.subscription where consumer_group = 's' and member = ''")
    with broker.transaction() as other:
        other.execute("select pg_advisory_xact_lock(1836150841, hashtext(%s))", f"{parent} late")
        with refused("MQ001", "this consumer, which has received nothing yet"):
            mq.receive("one", group="s", consumer="late", ack=receipt)


def test_it_acknowledges_where_nothing_is_left_or_all_is_paused(moded: Session) -> None:
    first = receive(moded, 4)[0].receipt
    moded.call("pause", "one", "s")
    assert receive(moded, ack=first) == []
    assert versions(moded)[-1] == ("a", 4, 4, 0)
    moded.call("resume", "one", "s")
    last = receive(moded)[0].receipt
    assert receive(moded, ack=last) == []
    assert versions(moded)[-1] == ("a", 6, 6, 0)


def test_in_one_transaction_with_the_effect(moded: Session) -> None:
    """C1: a rollback takes both back, a commit keeps both."""
    first = receive(moded)[0].receipt
    moded.execute("begin")
    assert offsets(receive(moded, ack=first)) == [2, 3]
    moded.execute("rollback")
    moded.execute("begin")
    again = receive(moded, ack=first)
    assert offsets(again) == [2, 3]
    assert offsets(receive(moded, ack=again[0].receipt)) == [4, 5]
    moded.execute("commit")
    assert [row[:3] for row in versions(moded)[-2:]] == [("b", 2, 4), ("b", 4, 6)]


def test_other_queues_waited_longer(mq: Session) -> None:
    """The queue of the receipt comes last, so that no queue is left behind."""
    spread(mq, 40)
    order: list[int] = []
    receipt: Any = None
    for _ in range(8):
        got = mq.receive("t", max_messages=1, ack=receipt)
        order.append(got[0].queue_id)
        receipt = got[0].receipt
    assert sorted(order[:4]) == [0, 1, 2, 3]
    assert order[4:] == order[:4]
    assert mq.scalar("select count(*) from mqpg.cursor where cardinality(claims) > 0") == 8
    mq.ack(receipt)


def test_a_queue_that_waited_longer_has_nothing_that_the_filter_chooses(mq: Session) -> None:
    """The call acknowledges, skips what does not match, and goes on to the queue of the receipt."""
    mq.subscribed("two", queues=2, group="s", filter="$ > 0")
    keys = {mq.scalar("select mqpg._queue_of(%s, 2)", str(n)): str(n) for n in range(20)}
    mq.sent_batch("two", ["1", "2", "3"], keys=[keys[0]] * 3)
    first = mq.receive("two", group="s", max_messages=1)
    mq.sent("two", "0", key=keys[1])
    got = mq.receive("two", group="s", ack=first[0].receipt)
    assert [(row.queue_id, row.payload) for row in got] == [(0, 2), (0, 3)]
    assert mq.receive("two", group="s") == []


def test_a_queue_that_waited_longer_has_a_message_without_attempts(mq: Session) -> None:
    """The call acknowledges, buries that message as a dead letter, and takes the third queue."""
    mq.subscribed("three", queues=3, group="s", mode="shared", max_attempts=2)
    keys = {mq.scalar("select mqpg._queue_of(%s, 3)", str(n)): str(n) for n in range(20)}
    for queue_id in range(3):
        mq.send("three", str(queue_id), key=keys[queue_id])
    mq.append()
    first = mq.receive("three", group="s", queue_id=0)
    for _ in range(2):
        assert mq.receive("three", group="s", queue_id=1, lease="10 ms")
        mq.execute("select pg_sleep(0.02)")
    mq.ack(mq.receive("three", group="s", queue_id=2)[0].receipt)
    mq.sent("three", "3", key=keys[2])
    assert [row.payload for row in mq.receive("three", group="s", ack=first[0].receipt)] == [3]
    assert mq.scalar("select count(*) from mqpg.dead_letter") == 1
    with refused("MQ008"):
        mq.call("release", first[0].receipt)


def test_with_a_filter_and_the_retry_lane(mq: Session) -> None:
    mq.execute("select mqpg.subscribe('s', 'one', filter => '$ > 3', retry_delay => '0')")
    mq.sent_batch("one", [str(n) for n in range(7)])
    first = receive(mq, 1)
    assert [row.payload for row in first] == [4]
    second = receive(mq, 1, ack=first[0].receipt)
    assert [row.payload for row in second] == [5]
    mq.nack(second[0].receipt, [second[0].message_id])
    mq.append()
    retried = receive(mq, 1, queue_id=-1)
    assert [(row.queue_id, row.payload) for row in retried] == [(-1, 5)]
    assert [row.payload for row in receive(mq, ack=retried[0].receipt)] == [6]
    with refused("MQ008"):
        mq.call("release", retried[0].receipt)


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_what_blocks_still_blocks(mq: Session, policy: str) -> None:
    mq.call("subscribe", "s", "one", on_failure=policy, retry_delay=seconds(600))
    mq.sent_batch("one", [str(n) for n in range(6)], keys=["a", "b"] * 3)
    first = receive(mq)
    mq.nack(first[0].receipt, [first[0].message_id])
    if policy == "block_queue":  # the nack has given the rest back
        assert receive(mq) == []
        return
    receipt, taken = first[0].receipt, []
    while rows := receive(mq, ack=receipt):
        taken += offsets(rows)
        receipt = rows[0].receipt
    assert taken == [3, 5]


def test_shared_takes_over_what_ran_out_first(mq: Session) -> None:
    """A take-over is a version of its own, so that a stale receipt is not called spent."""
    mq.call("subscribe", "s", "one", mode="shared")
    mq.sent_batch("one", [str(n) for n in range(6)])
    lost, mine = receive(mq)[0].receipt, receive(mq)[0].receipt
    mq.call("extend", lost, seconds(0.01))
    mq.execute("select pg_sleep(0.02)")
    assert offsets(receive(mq, ack=mine)) == [0, 1]
    assert [row[0] for row in versions(mq)][-2:] == ["a", "t"]
    for receipt, code in ((lost, "MQ009"), (mine, "MQ008")):
        with refused(code):
            mq.call("release", receipt)


def test_I9_two_consumers_never_have_the_same_message(moded: Session, broker: Broker) -> None:
    """Another consumer asks while the call's transaction is open, and after it is killed."""
    first = receive(moded)[0].receipt
    other, third = broker.session(), broker.session()
    other.execute("begin")
    assert offsets(receive(other, ack=first)) == [2, 3]
    assert receive(third) == []
    moded.execute("update mqpg.settings set value = '50 ms' where name = 'lock_timeout'")
    with refused("55P03"):
        third.ack(first)
    moded.execute("select pg_terminate_backend(%s, 5000)", other.pid)
    with cut_off():
        other.execute("select 1")
    # I8: nothing of it happened, so the receipt still stands, and its messages are with its owner.
    assert offsets(receive(moded, ack=first)) == [2, 3]
    with refused("MQ008"):
        third.call("release", first)


def test_I7_racing_consumers_lose_and_double_nothing(mq: Session, broker: Broker) -> None:
    mq.call("subscribe", "s", "t", mode="shared")
    spread(mq, 200)

    def work(session: Session) -> list[int]:
        taken: list[int] = []
        receipt = None
        while True:
            rows = session.receive("t", group="s", max_messages=3, ack=receipt)
            if not rows:
                return taken
            taken += [row.payload for row in rows]
            receipt = rows[0].receipt

    workers = [broker.background(work, broker.session()) for _ in range(3)]
    taken = [payload for worker in workers for payload in worker.result()]
    taken += eventually(lambda: [work(mq)])[0]
    assert sorted(taken) == list(range(200))
    assert mq.scalar("select sum(lag) from mqpg.subscription_lag where consumer_group = 's'") == 0
    went_back = """
        select count(*) from (
            select committed < lag(committed) over (partition by subscription_id, queue_id order by version) as back
            from mqpg.cursor) c where back
    """
    assert mq.scalar(went_back) == 0


def test_the_message_s_life_names_both(moded: Session) -> None:
    first = receive(moded)
    second = receive(moded, ack=first[0].receipt)
    of_group = "select event from mqpg.trace(%s) where detail ->> 'consumer_group' = 's' order by at"
    assert [row[0] for row in moded.rows(of_group, first[0].message_id)] == ["delivered", "done"]
    assert [row[0] for row in moded.rows(of_group, second[0].message_id)] == ["delivered"]


def test_repeatable_read_that_lost_the_race(mq: Session, broker: Broker) -> None:
    mq.call("subscribe", "s", "one")
    mq.sent_batch("one", [str(n) for n in range(6)])
    first = receive(mq)[0].receipt
    late = broker.session("begin isolation level repeatable read; select 1")
    receive(mq, ack=first)
    with refused("40001"):
        receive(late, ack=first)
