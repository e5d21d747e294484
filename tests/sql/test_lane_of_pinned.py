"""The retry lane in mode pinned: each message is for the owner of its queue, whoever asks first.

Only the owner's database knows what became of a message that failed there.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker import Broker, Session, ids_of, refused, seconds, spread
from tests.support.waiting import eventually

SOON = seconds(0.01)


@pytest.fixture
def pinned(mq: Session) -> Session:
    """Queue 0 belongs to a, queue 1 to b, and each has acknowledged one message of it."""
    mq.subscribed("p", queues=2, mode="pinned", max_attempts=4, retry_delay=SOON)
    spread(mq, 16, "p")
    for queue_id, consumer in enumerate("ab"):
        mq.ack(mq.receive("p", consumer=consumer, queue_id=queue_id, max_messages=1)[0].receipt)
    return mq


def fail(mq: Session, consumer: str, count: int = 1) -> list[int]:
    """Let the next messages of a consumer fail, and return their ids."""
    queue_id = "ab".index(consumer)
    got = mq.receive("p", consumer=consumer, queue_id=queue_id, max_messages=count)
    ids = [m.message_id for m in got]
    mq.nack(got[0].receipt, ids, reason=f"failed at {consumer}")
    return ids


def lane(mq: Session, consumer: str, **named: Any) -> list[Any]:
    return mq.receive("p", consumer=consumer, queue_id=-1, **named)


def soon(mq: Session, consumer: str, **named: Any) -> list[Any]:
    """What the consumer gets from the lane, as soon as it gets something."""
    return list(eventually(lambda: (mq.append(), lane(mq, consumer, **named))[1]))


def in_lane(mq: Session, count: int) -> None:
    """Wait until so many retries are in the lane."""
    tail = "select next_offset from mqpg.subscription_lag where consumer_group = 'g' and topic = 'p' and queue_id = -1"
    eventually(lambda: (mq.append(), mq.scalar(tail) >= count)[1])


def test_a_retry_is_for_the_owner_of_its_queue(pinned: Session) -> None:
    mine, other = fail(pinned, "a"), fail(pinned, "b")
    in_lane(pinned, 2)
    assert ids_of(lane(pinned, "b")) == other
    assert ids_of(lane(pinned, "a")) == mine
    assert lane(pinned, "c") == []


def test_receive_without_a_queue_finds_the_lane_too(pinned: Session) -> None:
    for consumer in "ab":
        while row := pinned.receive("p", consumer=consumer):
            pinned.ack(row[0].receipt) if row[0].message_id % 2 else pinned.nack(row[0].receipt, ids_of(row))
    sent = pinned.scalar("select count(*) from mqpg.delayed")
    in_lane(pinned, sent)
    found = {c: pinned.drain("p", consumer=c) for c in "ba"}
    assert sum(map(len, found.values())) == sent
    for consumer, rows in found.items():
        queues = pinned.rows("select queue_id from mqpg.commit_log where batch_id * 1024 = any(%s)", ids_of(rows))
        assert {row[0] for row in queues} <= {"ab".index(consumer)}
    assert pinned.scalar("select committed from mqpg.subscription_lag where queue_id = -1 and topic = 'p'") == sent


@pytest.mark.parametrize("first", "ab")
def test_each_owner_gets_its_own_out_of_a_mixed_lane(pinned: Session, first: str) -> None:
    ids: dict[str, list[int]] = {"a": [], "b": []}
    for consumer in "abba" * 2:
        ids[consumer] += fail(pinned, consumer)
    in_lane(pinned, 8)
    for consumer in (first, "ab".replace(first, "")):
        one, *rest = lane(pinned, consumer, max_messages=1)
        assert rest == []
        pinned.ack(one.receipt)
        others = lane(pinned, consumer)
        assert sorted([one.message_id, *ids_of(others)]) == sorted(ids[consumer])
        assert {m.attempt for m in others} == {2}
        pinned.ack(others[0].receipt)
        assert lane(pinned, consumer) == []


def test_what_waits_for_one_owner_costs_another_one_no_version(pinned: Session) -> None:
    fail(pinned, "a", 3)
    in_lane(pinned, 3)
    assert lane(pinned, "b") == []
    versions = pinned.scalar("select count(*) from mqpg.cursor")
    assert lane(pinned, "b") == []
    assert pinned.scalar("select count(*) from mqpg.cursor") == versions


def test_the_claim_of_an_owner_is_not_taken_over_by_another(pinned: Session) -> None:
    fail(pinned, "a", 2)
    old = soon(pinned, "a", lease=SOON)
    pinned.execute("select pg_sleep(0.03)")
    assert lane(pinned, "b") == []
    again = lane(pinned, "a")
    assert ids_of(again) == ids_of(old)
    assert {m.attempt for m in again} == {3}
    with refused("MQ009"):
        pinned.ack(old[0].receipt)


def test_both_owners_have_open_claims_at_once(pinned: Session) -> None:
    mine, other = fail(pinned, "a", 2), fail(pinned, "b", 2)
    in_lane(pinned, 4)
    a, b = lane(pinned, "a"), lane(pinned, "b")
    pinned.nack(a[0].receipt, mine[:1])
    pinned.call("release", b[0].receipt)
    pinned.ack(a[0].receipt)
    b = lane(pinned, "b")
    assert [(m.message_id, m.attempt) for m in b] == [(one, 2) for one in other]
    pinned.call("extend", b[0].receipt, seconds(5))
    pinned.ack(b[0].receipt, through=b[0].queue_offset)
    pinned.ack(b[0].receipt)
    assert [(m.message_id, m.attempt) for m in soon(pinned, "a")] == [(mine[0], 3)]


def test_the_last_attempt_is_alone_and_one_too_many_is_a_dead_letter(pinned: Session) -> None:
    mine = fail(pinned, "a", 2)
    for attempt in (2, 3):
        assert {m.attempt for m in soon(pinned, "a", lease=SOON)} == {attempt}
    for message_id in mine:
        assert [(m.message_id, m.attempt) for m in lane(pinned, "a")] == [(message_id, 4)]
        if message_id == mine[0]:
            assert [(m.message_id, m.attempt) for m in lane(pinned, "a")] == [(mine[1], 4)]
            break
    assert lane(pinned, "a") == []
    letters = pinned.call("dead_letters", "g", "p")
    assert {m.message_id for m in letters} == set(mine)
    assert {m.reason for m in letters} == {"lease ran out at the last attempt"}


def test_redrive_goes_to_the_owner(pinned: Session) -> None:
    (one,) = fail(pinned, "a")
    pinned.nack(soon(pinned, "a")[0].receipt, [one], final=True)
    assert pinned.value("redrive", "g", "p") == 1
    in_lane(pinned, 2)
    assert lane(pinned, "b") == []
    assert [(m.message_id, m.attempt) for m in lane(pinned, "a")] == [(one, 1)]


def test_a_seek_of_the_lane_repeats_to_the_owners(pinned: Session) -> None:
    mine, other = fail(pinned, "a"), fail(pinned, "b")
    in_lane(pinned, 2)
    for consumer in "ab":
        pinned.ack(lane(pinned, consumer)[0].receipt)
    pinned.call("seek", "g", "p", "0", queue_id=-1)
    assert ids_of(lane(pinned, "b")) == other
    assert ids_of(lane(pinned, "a")) == mine


@pytest.mark.parametrize("named", [{}, {"queue_id": 0}, {"consumer": "a"}, {"queue_id": 0, "consumer": "a"}])
def test_unpin_gives_the_retries_away_with_the_queue(pinned: Session, named: dict[str, Any]) -> None:
    mine = fail(pinned, "a", 2)
    in_lane(pinned, 2)
    open_one = soon(pinned, "a", max_messages=1)
    pinned.call("unpin", "g", "p", **named)
    with refused("MQ009"):
        pinned.ack(open_one[0].receipt)
    assert pinned.receive("p", consumer="b", queue_id=0)  # b owns it now
    assert lane(pinned, "a") == []
    first = lane(pinned, "b", max_messages=1)
    pinned.ack(first[0].receipt)
    assert sorted(ids_of(first + lane(pinned, "b"))) == sorted(mine)


def test_a_retry_of_a_queue_without_owner_brings_the_queue_with_it(pinned: Session) -> None:
    mine = fail(pinned, "a")
    in_lane(pinned, 1)
    pinned.call("unpin", "g", "p", consumer="a")
    assert ids_of(lane(pinned, "c")) == mine
    owners = "select owner from mqpg.subscription_lag where topic = 'p' and queue_id >= 0 order by queue_id"
    assert [row[0] for row in pinned.rows(owners)] == ["c", "b"]
    assert pinned.receive("p", consumer="a", queue_id=0) == []
    assert pinned.receive("p", consumer="c", queue_id=0)


def test_a_queue_without_owner_that_another_one_reads_brings_no_retry(pinned: Session, broker: Broker) -> None:
    mine = fail(pinned, "a")
    in_lane(pinned, 1)
    pinned.call("unpin", "g", "p", consumer="a")
    with broker.transaction() as other:
        assert other.receive("p", consumer="d", queue_id=0)
        assert lane(pinned, "c") == []
    assert lane(pinned, "c") == []
    assert ids_of(lane(pinned, "d")) == mine


def test_unpin_of_another_consumer_ends_no_claim_of_the_lane(pinned: Session) -> None:
    fail(pinned, "a")
    got = soon(pinned, "a")
    pinned.call("unpin", "g", "p", consumer="b")
    pinned.call("unpin", "g", "p", queue_id=0, consumer="b")
    pinned.ack(got[0].receipt)


def test_too_many_that_wait_for_one_owner_hold_up_the_others(pinned: Session) -> None:
    pinned.execute("select count(*) from mqpg.send_batch('p', array_fill('{}'::text, array[16000]))")
    pinned.append()
    failed = {"a": 0, "b": 0}
    while failed["a"] <= 4200:
        failed["a"] += len(fail(pinned, "a", 1000))
    in_lane(pinned, failed["a"])
    (mine,) = fail(pinned, "b")
    in_lane(pinned, failed["a"] + 1)
    assert lane(pinned, "b", max_messages=10_000) == []
    assert lane(pinned, "b", max_messages=10_000) == []
    pinned.ack(lane(pinned, "a", max_messages=1000)[0].receipt)
    assert ids_of(lane(pinned, "b")) == [mine]


def test_a_lane_that_an_earlier_release_gave_to_one_member(pinned: Session) -> None:
    """It wrote an owner into the lane's cursor."""
    mine = fail(pinned, "a")
    in_lane(pinned, 1)
    pinned.execute(
        "insert into mqpg.cursor (version, committed, claimed, at, subscription_id, slot, queue_id, action, owner,"
        " claims) select c.version + 1, c.committed, c.claimed, now(), c.subscription_id, c.slot, -1, 'f', 'b', '{}'"
        " from mqpg.cursor c join mqpg.subscription s using (subscription_id)"
        " where s.mode = 'pinned' and c.queue_id = -1 order by c.version desc limit 1"
    )
    assert lane(pinned, "b") == []
    assert ids_of(lane(pinned, "a")) == mine
