"""Mode shared: many claims of one queue are in flight, independent of each other."""

import time
from typing import Any

import pytest

from tests.support.broker import Broker, Session, fill, ids_of, offsets, refused, seconds
from tests.support.waiting import eventually


@pytest.fixture
def shared(mq: Session) -> Session:
    """Topic `s` with one queue, which group `g` reads in mode shared with three attempts and a short back-off."""
    mq.subscribed("s", mode="shared", max_attempts=3, retry_delay=seconds(0.05))
    return mq


def expire(mq: Session, receipt: str) -> None:
    """End a lease."""
    mq.call("extend", receipt, seconds(0.01))
    mq.execute("select pg_sleep(0.02)")


def lag(mq: Session, topic: str = "s", queue_id: int = 0) -> Any:
    return mq.rows("select * from mqpg.subscription_lag where topic = %s and queue_id = %s", topic, queue_id)[0]


def test_many_claims_of_one_queue_are_in_flight(shared: Session, other: Session) -> None:
    ids = fill(shared, 10, "s")
    parts = [s.receive("s", max_messages=3) for s in (shared, other, shared, other)]
    assert [offsets(p) for p in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert len({p[0].receipt for p in parts}) == 4
    assert lag(shared).claims == 4
    assert shared.receive("s") == []
    assert ids_of([m for part in parts for m in part]) == ids


def test_one_slow_message_holds_only_its_own_claim(shared: Session) -> None:
    fill(shared, 10, "s")
    slow = shared.receive("s", max_messages=1)
    assert offsets(shared.drain("s", max_messages=2)) == list(range(1, 10))
    assert (lag(shared).committed, lag(shared).lag, lag(shared).claims) == (0, 10, 1)
    shared.ack(slow[0].receipt)
    assert (lag(shared).committed, lag(shared).lag, lag(shared).claims) == (10, 0, 0)


def test_claims_are_acknowledged_in_any_order(shared: Session) -> None:
    fill(shared, 9, "s")
    parts = [shared.receive("s", max_messages=3) for _ in range(3)]
    shared.ack(parts[2][0].receipt)
    assert lag(shared).committed == 0
    shared.ack(parts[0][0].receipt)
    assert lag(shared).committed == 3
    shared.ack(parts[1][0].receipt, through=4)
    assert lag(shared).committed == 5
    shared.ack(parts[1][0].receipt)
    assert lag(shared).committed == 9
    for part in parts:
        shared.ack(part[0].receipt)
        with refused("MQ008"):
            shared.call("release", part[0].receipt)


def test_64_claims_are_open_and_no_more(shared: Session) -> None:
    fill(shared, 70, "s")
    held = [shared.receive("s", max_messages=1) for _ in range(64)]
    assert all(held)
    assert shared.receive("s", max_messages=1) == []
    assert lag(shared).claims == 64
    shared.ack(held[7][0].receipt)
    assert offsets(shared.receive("s", max_messages=1)) == [64]
    shared.call("release", held[3][0].receipt)
    assert offsets(shared.receive("s", max_messages=1)) == [3]
    assert shared.receive("s", max_messages=1) == []


def test_of_64_open_claims_one_whose_lease_is_over_is_taken_over(shared: Session) -> None:
    fill(shared, 70, "s")
    held = [shared.receive("s", max_messages=1) for _ in range(64)]
    expire(shared, held[40][0].receipt)
    (m,) = shared.receive("s", max_messages=1)
    assert (m.queue_offset, m.attempt) == (40, 2)
    assert lag(shared).claims == 64


def test_what_was_given_back_goes_first(shared: Session) -> None:
    fill(shared, 12, "s")
    parts = [shared.receive("s", max_messages=3) for _ in range(3)]
    shared.call("release", parts[1][0].receipt)
    got = shared.receive("s", max_messages=2)
    assert (offsets(got), {m.attempt for m in got}) == ([3, 4], {1})
    assert offsets(shared.receive("s", max_messages=2)) == [5]
    assert offsets(shared.receive("s", max_messages=10)) == [9, 10, 11]


@pytest.mark.own_database
def test_a_lease_that_ends_during_a_receive_loses_no_acknowledgement(shared: Session) -> None:
    """The version of the new claim says `ack_and_receive` too, once it was found that none is taken over."""
    fill(shared, 6, "s")
    _, mine = (shared.receive("s", max_messages=2)[0].receipt for _ in range(2))
    # The other lease ends once receive() has looked for it twice: to choose the queue, and to choose the version.
    shared.execute("alter function mqpg._claim_to_take_over(mqpg.subscription, mqpg.claim[]) set schema public")
    shared.execute(
        """create function mqpg._claim_to_take_over(subscription mqpg.subscription, claims mqpg.claim[]) returns int
        language plpgsql as $$
        begin
            perform set_config('test.looks', concat(current_setting('test.looks', true), '.'), true);
            if length(current_setting('test.looks')) > 2 then
                claims[1].lease_until := '-infinity';
            end if;
            return public._claim_to_take_over(subscription, claims);
        end $$"""
    )
    assert offsets(shared.receive("s", max_messages=2, ack=mine)) == [4, 5]
    assert [row.action for row in shared.rows("select action from mqpg.cursor order by version desc limit 1")] == ["b"]
    shared.ack(mine)  # is known to be done


def test_extend_and_nack_concern_their_claim_only(shared: Session) -> None:
    fill(shared, 6, "s")
    a = shared.receive("s", max_messages=3)
    b = shared.receive("s", max_messages=3)
    shared.call("extend", a[0].receipt, seconds(90))
    shared.nack(b[0].receipt, [b[1].message_id], delay=seconds(60))
    expire(shared, b[0].receipt)
    assert offsets(shared.receive("s")) == [3, 5]
    shared.ack(a[0].receipt)
    with refused("MQ009"):
        shared.ack(b[0].receipt)


def test_receive_waits_a_moment_for_the_only_queue(shared: Session, broker: Broker, other: Session) -> None:
    """A queue that another call has for a moment is not empty.

    A queue of a long transaction is skipped.
    """
    fill(shared, 6, "s")
    with shared.transaction():
        assert shared.receive("s", max_messages=2)
        began = time.monotonic()
        assert other.receive("s", max_messages=2) == []
        assert time.monotonic() - began < 20
        before = other.scalar("select current_setting('lock_timeout')")
        waiting = broker.background(lambda: eventually(lambda: other.receive("s", max_messages=2)))
    assert offsets(waiting.result(45)) == [2, 3]
    assert other.scalar("select current_setting('lock_timeout')") == before


def test_retries_are_shared_too(shared: Session) -> None:
    ids = fill(shared, 6, "s")
    shared.nack(shared.receive("s")[0].receipt, ids, delay=seconds(0))
    eventually(lambda: (shared.append(), lag(shared, queue_id=-1).next_offset == 6)[1])
    a, b = shared.receive("s", max_messages=2), shared.receive("s", max_messages=2)
    assert ({m.queue_id for m in a + b}, offsets(a), offsets(b)) == ({-1}, [0, 1], [2, 3])
    assert {m.attempt for m in a + b} == {2}


def test_exclusive_and_shared_change_into_each_other(shared: Session) -> None:
    fill(shared, 6, "s")
    a = shared.receive("s", max_messages=2)
    b = shared.receive("s", max_messages=2)
    shared.call("alter_subscription", "g", "s", mode="exclusive")
    assert shared.receive("s") == []
    shared.ack(b[0].receipt)
    assert shared.receive("s") == []
    shared.ack(a[0].receipt)
    c = shared.receive("s", max_messages=1)
    assert shared.receive("s") == []
    shared.call("alter_subscription", "g", "s", mode="shared")
    assert offsets(shared.receive("s")) == [5]
    shared.ack(c[0].receipt)
