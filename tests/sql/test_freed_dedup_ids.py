"""A dedup id stands for a message that exists or was delivered: if its message ended before that, it is free again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.broker import Broker, Session

Ended = Callable[[Session], Any]


def recalled(mq: Session) -> None:
    assert mq.value("recall", mq.send("one", '"old"', delay="1 hour", dedup_id="x"))


def recalled_at_once(mq: Session) -> None:
    with mq.transaction():
        recalled(mq)


def many_recalled(mq: Session) -> None:
    with mq.transaction():
        for message in [mq.send("one", delay="1 hour") for _ in range(70)]:
            mq.value("recall", message)
        recalled(mq)


def committed_and_recalled(mq: Session) -> None:
    handle = mq.prepare("one", '"old"', delay="1 hour", dedup_id="x")
    mq.commit(handle)
    assert mq.value("recall", int(handle.split(".")[2]))


def rolled_back(mq: Session) -> None:
    assert mq.rollback(mq.prepare("one", '"old"', dedup_id="x")) == "rolled_back"


def settled(mq: Session) -> None:
    mq.call("settle", mq.prepare("one", '"old"', dedup_id="x"), "rollback", "test")


def purged(mq: Session) -> None:
    mq.sent("one", '"old"', dedup_id="x")
    mq.value("purge_topic", "one")


def expired(mq: Session) -> None:
    mq.call("alter_topic", "one", message_ttl="10 ms")
    mq.sent("one", '"old"', dedup_id="x")
    mq.execute("select pg_sleep(0.1)")
    assert not mq.receive("one")
    mq.call("alter_topic", "one", message_ttl="1 hour")


def twice(mq: Session) -> None:
    recalled(mq)
    recalled(mq)


ENDS = [recalled, recalled_at_once, many_recalled, committed_and_recalled, rolled_back, settled, purged, expired, twice]
AGAIN: dict[str, Callable[[Session], Any]] = {
    "send": lambda mq: mq.send("one", '"new"', dedup_id="x"),
    "send_batch": lambda mq: mq.send_batch("one", ['"new"', '"new"'], dedup_ids=["x", "x"])[0],
    "delayed": lambda mq: mq.send("one", '"new"', delay="10 ms", dedup_id="x"),
    "prepare": lambda mq: mq.commit(mq.prepare("one", '"new"', dedup_id="x")),
}


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("end", ENDS)
def test_the_id_is_free_again(end: Ended, again: str, mq: Session) -> None:
    end(mq)
    if again == "prepare" and end in (rolled_back, settled):
        # A repeated PREPARE says what became of the first one.
        assert AGAIN[again](mq) == "already_rolled_back"
        return
    first = AGAIN[again](mq)
    if again != "prepare":
        assert mq.send("one", '"third"', dedup_id="x") == first
    mq.execute("select pg_sleep(0.05)")
    assert [row.payload for row in mq.delivered("one")] == ["new"]


def test_the_id_is_free_for_one_in_the_same_transaction(mq: Session) -> None:
    with mq.transaction():
        recalled(mq)
        new = mq.send("one", '"new"', dedup_id="x")
        assert mq.send("one", '"third"', dedup_id="x") == new
    assert [row.payload for row in mq.delivered("one")] == ["new"]


def test_the_later_slot_knows_the_newest(mq: Session) -> None:
    """At the end of a slot the rows of the next one are what is left."""
    recalled(mq)
    mq.execute("delete from mqpg.dedup where slot = (select max(slot) from mqpg.dedup)")
    new = mq.send("one", '"new"', dedup_id="x")
    mq.execute("delete from mqpg.dedup where slot = (select min(slot) from mqpg.dedup)")
    mq.execute("update mqpg.dedup set slot = slot - 1")
    assert mq.send("one", dedup_id="x") == new


def test_an_id_is_free_again_any_number_of_times(mq: Session) -> None:
    """A reminder is moved again and again: no key grows with that."""
    dedup_id = "x" * 512
    made = set()
    for _ in range(20):
        made.add(message := mq.send("one", '"old"', delay="1 hour", dedup_id=dedup_id))
        assert mq.value("recall", message)
    assert len(made) == 20
    assert mq.scalar("select max(length(dedup_id)) from mqpg.dedup") <= len(f"{dedup_id}.{max(made)}")
    new = mq.send("one", '"new"', dedup_id=dedup_id)
    assert mq.send("one", '"third"', dedup_id=dedup_id) == new
    assert [row.payload for row in mq.delivered("one")] == ["new"]


def test_the_window_after_one_with_many_begins_at_the_newest(mq: Session) -> None:
    recalled(mq)
    recalled(mq)
    mq.execute("delete from mqpg.dedup where slot = (select max(slot) from mqpg.dedup)")
    recalled(mq)
    new = mq.send("one", '"new"', dedup_id="x")
    mq.execute("delete from mqpg.dedup where slot = (select min(slot) from mqpg.dedup)")
    mq.execute("update mqpg.dedup set slot = slot - 1")
    assert mq.send("one", '"third"', dedup_id="x") == new
    assert [row.payload for row in mq.delivered("one")] == ["new"]


@pytest.mark.parametrize("state", ["pending", "delivered", "delivered and purged", "in flight", "dead", "sought"])
def test_the_id_of_a_message_that_exists_or_was_delivered_is_taken(state: str, mq: Session) -> None:
    message = mq.sent("one", dedup_id="x", **({"delay": "1 hour"} if state == "pending" else {}))
    if state == "dead":
        mq.nack(mq.receive("one")[0].receipt, [message], final=True)
        mq.value("purge_topic", "one")
    elif state == "in flight":
        mq.receive("one")
        mq.value("purge_topic", "one")
    elif state == "sought":
        mq.call("seek", "g", "one", "latest")
    elif state != "pending":
        mq.drain("one")
        if "purged" in state:
            mq.value("purge_topic", "one")
    assert mq.send("one", dedup_id="x") == message


def test_a_purge_for_one_of_two_groups(mq: Session) -> None:
    mq.call("subscribe", "h", "one")
    message = mq.sent("one", dedup_id="x")
    mq.drain("one", group="h")
    mq.value("purge_topic", "one")
    assert mq.send("one", dedup_id="x") == message


@pytest.mark.parametrize("many", [False, True])
def test_an_open_recall_is_waited_for(many: bool, broker: Broker, other: Session, mq: Session) -> None:
    old = mq.send("one", '"old"', delay="1 hour", dedup_id="x")
    others = [mq.send("one", delay="1 hour") for _ in range(70 if many else 0)]
    mq.execute("begin")
    for message in [*others, old]:
        mq.value("recall", message)
    again = broker.blocked(other, other.send, "one", '"new"', dedup_id="x")
    mq.execute("commit")
    assert again.result() != old
    assert [row.payload for row in mq.delivered("one")] == ["new"]


def test_two_senders_at_once_store_one(broker: Broker, other: Session, mq: Session) -> None:
    recalled(mq)
    mq.execute("begin")
    new = mq.send("one", '"new"', dedup_id="x")
    again = broker.blocked(other, other.send, "one", '"third"', dedup_id="x")
    mq.execute("commit")
    assert again.result() == new
