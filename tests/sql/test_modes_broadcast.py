"""Mode broadcast: every consumer name has its own position, from the subscription's start."""

from typing import Any

import pytest

from tests.support.broker import Broker, Session, refused, seconds, spread
from tests.support.waiting import eventually

# what is done to all members of a group
CHANGES: dict[str, tuple[object, ...]] = {
    "seek": ("g", "b", "latest"),
    "purge_topic": ("b",),
    "pause": ("b", "g"),
    "alter_subscription": ("g", "b", 7),
}


@pytest.fixture
def cast(mq: Session) -> Session:
    """Topic `b` with two queues, read by group `g` in mode broadcast."""
    mq.subscribed("b", queues=2, mode="broadcast", max_attempts=2, retry_delay=seconds(0.02))
    return mq


def ids_of(rows: list[Any]) -> list[int]:
    return sorted(row.message_id for row in rows)


def members(mq: Session) -> set[str]:
    return {r[0] for r in mq.rows("select distinct owner from mqpg.subscription_lag where topic = 'b'")}


def test_every_member_sees_everything(cast: Session) -> None:
    ids = spread(cast, 12, "b")
    assert ids_of(cast.drain("b", consumer="a")) == ids
    assert ids_of(cast.drain("b", consumer="b")) == ids
    more = spread(cast, 4, "b")
    assert ids_of(cast.drain("b", consumer="a")) == more
    assert cast.drain("b", consumer="a") == []
    assert ids_of(cast.drain("b", consumer="b")) == more


def test_a_member_begins_at_the_subscriptions_start(cast: Session) -> None:
    spread(cast, 3, "b")
    cast.call("subscribe", "late", "b", mode="broadcast", start="latest")
    ids = spread(cast, 3, "b")
    assert ids_of(cast.drain("b", group="late", consumer="a")) == ids
    more = spread(cast, 3, "b")
    assert ids_of(cast.drain("b", group="late", consumer="joined-later")) == ids + more


def test_members_claims_and_receipts_are_their_own(cast: Session) -> None:
    spread(cast, 1, "b")
    (a,) = cast.receive("b", consumer="a")
    (b,) = cast.receive("b", consumer="b")
    assert a.message_id == b.message_id
    assert a.receipt != b.receipt
    assert cast.receive("b", consumer="a") == []  # one name, one place: like an exclusive group of its own
    cast.ack(a.receipt)
    cast.ack(a.receipt)
    cast.ack(b.receipt)


def test_a_failed_message_comes_back_to_that_member_only(cast: Session) -> None:
    ids = spread(cast, 1, "b")
    (a,) = cast.receive("b", consumer="a")
    cast.nack(a.receipt, ids, reason="bad")
    (again,) = eventually(lambda: (cast.append(), cast.receive("b", consumer="a"))[1])
    assert (again.queue_id, again.attempt, again.message_id) == (-1, 2, ids[0])
    assert [(m.queue_id, m.attempt) for m in cast.drain("b", consumer="b")] == [(a.queue_id, 1)]
    cast.nack(again.receipt, ids, reason="worse")
    (letter,) = cast.call("dead_letters", "g", "b")
    assert (letter.message_id, letter.reason) == (ids[0], "worse")


def test_settings_are_the_groups(cast: Session) -> None:
    spread(cast, 1, "b")
    cast.drain("b", consumer="a")
    cast.call("alter_subscription", "g", "b", filter="$ > 100", max_attempts=9)
    cast.call("pause", "b", "g")
    spread(cast, 2, "b")
    assert cast.receive("b", consumer="a") == []
    assert cast.receive("b", consumer="new") == []
    cast.call("resume", "b", "g")
    assert cast.drain("b", consumer="a") == []
    assert cast.drain("b", consumer="new") == []
    rows = cast.rows(
        "select filter is not null, max_attempts, paused from mqpg.subscription where consumer_group = 'g'"
    )
    assert set(map(tuple, rows)) >= {(True, 9, False)}


def test_lag_shows_each_member(cast: Session) -> None:
    assert members(cast) == set()
    spread(cast, 6, "b")
    cast.drain("b", consumer="a")
    cast.receive("b", consumer="b", max_messages=1)
    assert members(cast) == {"a", "b"}
    lag = dict(
        cast.rows(
            "select owner, sum(lag) from mqpg.subscription_lag where topic = 'b' and queue_id >= 0 group by owner"
        )
    )
    assert (lag["a"], lag["b"]) == (0, 6)


def test_one_member_can_be_removed(cast: Session) -> None:
    ids = spread(cast, 4, "b")
    a = cast.receive("b", consumer="a", max_messages=1)
    b = cast.receive("b", consumer="b", max_messages=1)
    cast.call("unsubscribe", "g", "b", consumer="a")
    assert members(cast) == {"b"}
    with refused("MQ007"):
        cast.ack(a[0].receipt)
    cast.ack(b[0].receipt)
    assert ids_of(cast.drain("b", consumer="a")) == ids  # the name begins again
    with refused("MQ005", "nobody"):
        cast.call("unsubscribe", "g", "b", consumer="nobody")
    with refused("MQ001", "consumer"):
        cast.call("unsubscribe", "g", "one", consumer="a")


def test_unsubscribe_removes_all_members(cast: Session) -> None:
    spread(cast, 4, "b")
    receipts = [cast.receive("b", consumer=c, max_messages=1)[0].receipt for c in ("a", "b")]
    cast.call("unsubscribe", "g", "b")
    assert cast.scalar("select count(*) from mqpg.subscription where consumer_group = 'g' and mode = 'broadcast'") == 0
    for receipt in receipts:
        with refused("MQ007"):
            cast.ack(receipt)
    cast.call("drop_topic", "b", force=True)


def test_drop_topic_refuses_while_a_member_has_not_read_all(cast: Session) -> None:
    spread(cast, 2, "b")
    cast.drain("b", consumer="a")
    cast.receive("b", consumer="b", max_messages=1)
    with refused("MQ012"):
        cast.call("drop_topic", "b")
    cast.call("unsubscribe", "g", "b", consumer="b")
    cast.call("drop_topic", "b")


def test_a_member_whose_first_receive_rolls_back_is_none(cast: Session) -> None:
    spread(cast, 2, "b")
    with cast.transaction(force_rollback=True):
        assert cast.receive("b", consumer="a")
    assert members(cast) == set()
    assert len(cast.drain("b", consumer="a")) == 2


def test_one_name_that_joins_twice_at_once_is_one_member(cast: Session, other: Session) -> None:
    spread(cast, 12, "b")
    with cast.transaction():
        mine = cast.receive("b", consumer="a", max_messages=1)
        assert other.receive("b", consumer="a", max_messages=1) == []  # does not wait
        assert other.receive("b", consumer="b", max_messages=1)
    theirs = other.receive("b", consumer="a", max_messages=1)
    assert {m[0].queue_id for m in (mine, theirs)} == {0, 1}
    assert members(cast) == {"a", "b"}


@pytest.mark.parametrize("call", CHANGES)
def test_a_member_does_not_wait_for_a_change_of_its_group(cast: Session, broker: Broker, call: str) -> None:
    spread(cast, 4, "b")
    other = broker.session("set lock_timeout = '100 ms'")
    with cast.transaction(force_rollback=True):
        cast.call(call, *CHANGES[call])
        assert other.receive("b", consumer="a") == []
        assert other.receive("b", consumer="a") == []
    assert other.receive("b", consumer="a")
    assert members(cast) == {"a"}


def test_a_group_that_ends_waits_for_a_member_that_joins(cast: Session, broker: Broker, other: Session) -> None:
    """Otherwise the member's row would stay behind and pin every segment."""
    spread(cast, 1, "b")
    with cast.transaction():
        assert cast.receive("b", consumer="a")
        ending = broker.blocked(other, other.call, "unsubscribe", "g", "b")
    ending.result(45)
    assert cast.scalar("select count(*) from mqpg.subscription where consumer_group = 'g' and mode = 'broadcast'") == 0


@pytest.mark.parametrize("call", CHANGES)
def test_what_moves_a_group_waits_for_a_member_that_joins(cast: Session, broker: Broker, call: str) -> None:
    """Otherwise the member would continue from the old position, or unpaused, or with the old filter."""
    spread(cast, 4, "b")
    other = broker.session()
    with cast.transaction():
        assert cast.receive("b", max_messages=1, consumer="a")
        moving = broker.blocked(other, other.call, call, *CHANGES[call])
    moving.result(45)
    assert cast.receive("b", consumer="a") == [] or call == "alter_subscription"
    assert cast.scalar("select min(max_attempts) from mqpg.subscription") == (7 if call == "alter_subscription" else 2)


def test_what_moves_a_group_waits_no_longer_than_the_lock_timeout(cast: Session, broker: Broker) -> None:
    spread(cast, 1, "b")
    cast.execute("update mqpg.settings set value = '200 ms' where name = 'lock_timeout'")
    with cast.transaction():
        assert cast.receive("b", consumer="a")
        with refused("55P03"):
            broker.session().call("seek", "g", "b", "latest")


@pytest.mark.parametrize("policy", ["block_key", "block_queue"])
def test_members_may_block(mq: Session, policy: str) -> None:
    mq.subscribed("k", mode="broadcast", on_failure=policy, retry_delay=seconds(0.02))
    ids = mq.sent_batch("k", ["1"] * 3, keys=["x", "y", "x"])
    (first, *_) = mq.receive("k", consumer="a")
    mq.nack(first.receipt, [ids[0]])
    assert [m.message_id for m in mq.drain("k", consumer="b")] == ids
    with mq.transaction():
        seen = []
        if policy == "block_key":
            mq.ack(first.receipt)
            seen = [ids[1]]
    while len(seen) < 3:
        got = eventually(lambda: mq.receive("k", consumer="a", max_messages=1))
        seen += [m.message_id for m in got]
        mq.ack(got[0].receipt)
    assert seen == ([ids[1], ids[0], ids[2]] if policy == "block_key" else ids)
