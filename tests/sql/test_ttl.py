"""message_ttl: a message that no member of a group got in time expires for the group.

It counts as consumed or becomes a dead letter.
"""

from typing import Any

from tests.support.broker import Session, seconds
from tests.support.waiting import eventually


def age(mq: Session) -> None:
    """Make everything that is visible now an hour older."""
    mq.execute("update mqpg.tick set at = at - interval '1 hour'")


def expiring(mq: Session, ttl: float = 600, topic: str = "one", **named: object) -> None:
    mq.call("alter_topic", topic, message_ttl=seconds(ttl), **named)


def jumps(mq: Session) -> list[tuple[Any, ...]]:
    return [
        tuple(r)
        for r in mq.rows("select consumer_group, from_offset, to_offset, why from mqpg.position_jump order by 2, 1")
    ]


def test_expired_messages_count_as_consumed(mq: Session) -> None:
    expiring(mq)
    mq.sent_batch("one", ["1", "2"])
    age(mq)
    mq.sent("one", "3")
    assert [m.payload for m in mq.drain("one")] == [3]
    assert jumps(mq) == [("g", 0, 2, "expired")]
    assert mq.scalar("select lag from mqpg.subscription_lag where topic = 'one' and queue_id = 0") == 0


def test_nothing_but_expired_ones_gives_nothing_and_is_noted_once(mq: Session) -> None:
    expiring(mq)
    for _ in range(3):
        mq.sent("one", "1")
        age(mq)
        assert mq.receive("one") == []
    assert jumps(mq) == [("g", 0, 3, "expired")]


def test_or_become_dead_letters_and_can_be_redriven(mq: Session) -> None:
    expiring(mq, on_expired="dead_letter")
    ids = mq.sent_batch("one", ["1", "2"])
    age(mq)
    assert mq.receive("one") == []
    letters = mq.call("dead_letters", "g", "one")
    assert sorted(r.message_id for r in letters) == ids
    assert {(r.reason, r.attempts) for r in letters} == {("expired", 0)}
    mq.value("redrive", "g", "one")
    mq.append()
    age(mq)
    assert sorted(m.payload for m in mq.drain("one")) == [1, 2]


def test_many_dead_letters_are_made_in_several_calls(mq: Session) -> None:
    """So a call ends in time however many messages expired, and gives none of them to a consumer."""
    mq.execute("update mqpg.settings set value = '0 s' where name = 'filter_time'")
    expiring(mq, on_expired="dead_letter")
    mq.sent_batch("one", ["1"] * 2500)
    age(mq)
    mq.sent("one", "2")
    for letters in (1000, 2000):
        assert mq.receive("one") == []
        assert mq.scalar("select count(*) from mqpg.dead_letter") == letters
    assert [m.payload for m in mq.receive("one")] == [2]
    assert mq.scalar("select count(*) from mqpg.dead_letter") == 2500
    assert jumps(mq) == [("g", 0, 2500, "expired")]


def test_each_group_for_itself_and_a_ttl_taken_away(mq: Session) -> None:
    mq.call("subscribe", "quick", "one")
    expiring(mq)
    mq.sent("one", "1")
    assert len(mq.drain("one", group="quick")) == 1
    age(mq)
    assert mq.receive("one") == []
    mq.call("alter_topic", "one", message_ttl=seconds(0))
    assert mq.scalar("select message_ttl is null from mqpg.topics where topic = 'one'")
    mq.sent("one", "2")
    age(mq)
    assert [m.payload for m in mq.receive("one")] == [2]


def test_the_time_counts_from_when_it_became_visible(mq: Session) -> None:
    """A delayed message, or one of an old transaction, has all of its time."""
    expiring(mq)
    mq.send("one", "1", delay=seconds(0.02))
    mq.execute("update mqpg.commit_log set born_at = born_at - interval '1 hour'")
    mq.execute("update mqpg.delayed set written_at = written_at - interval '1 hour'")
    eventually(mq.append)
    assert [m.payload for m in mq.receive("one")] == [1]


def test_what_was_handed_out_once_does_not_expire(mq: Session) -> None:
    expiring(mq)
    mq.sent_batch("one", ["1", "2"])
    rows = mq.receive("one", lease=seconds(0.05))
    age(mq)
    again = eventually(lambda: mq.receive("one"))
    assert [m.payload for m in again] == [1, 2]
    mq.nack(again[0].receipt, [rows[0].message_id], delay=seconds(0))
    mq.append()
    age(mq)
    mq.ack(again[0].receipt)
    assert [m.payload for m in mq.receive("one")] == [1]


def test_in_every_mode(mq: Session) -> None:
    for mode in ("shared", "pinned", "broadcast"):
        mq.call("subscribe", mode, "one", mode=mode)
        mq.receive("one", group=mode, consumer="c")
    expiring(mq)
    mq.sent("one", "1")
    first = mq.receive("one", group="shared", max_messages=1)
    age(mq)
    mq.sent("one", "2")
    for mode in ("shared", "pinned", "broadcast"):
        assert [m.payload for m in mq.receive("one", group=mode, consumer="c")] == [2]
    mq.ack(first[0].receipt)


def test_expiry_is_in_the_trace(mq: Session) -> None:
    expiring(mq)
    sent = mq.sent("one", "1")
    age(mq)
    mq.receive("one")
    rows = mq.call("trace", sent)
    assert {r.event for r in rows} == {"born", "appended", "left_out"}
    assert rows[-1].detail["why"] == "expired"
