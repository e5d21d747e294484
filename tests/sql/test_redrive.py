"""Dead letters are listed with all attempts, paged, chosen by id or jsonpath, redriven and discarded, each once."""

import json
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, refused, seconds, story
from tests.support.waiting import eventually


def bury(mq: Session, payloads: list[str], *, group: str = "strict", topic: str = "one", **named: object) -> list[int]:
    """Make dead letters in a subscription of one attempt, and return their ids."""
    mq.call("subscribe", group, topic, max_attempts=1, start="latest")
    ids = mq.sent_batch(topic, payloads, **named)
    while rows := mq.receive(topic, group=group):
        mq.nack(rows[0].receipt, [r.message_id for r in rows], reason="bad")
    return ids


def dead(mq: Session, *args: object, group: str = "strict", topic: str = "one", **named: object) -> list[Any]:
    return mq.call("dead_letters", group, topic, *args, **named)


def redrive(mq: Session, *args: object, group: str = "strict", topic: str = "one", **named: object) -> int:
    return int(mq.value("redrive", group, topic, *args, **named))


def chosen(mq: Session, call: str, filter_: str) -> int:
    return int(mq.scalar(f"select mqpg.{call}('strict', 'one', filter => %s::jsonpath)", filter_))


# listing


def test_pages_go_on_behind_the_last_one(mq: Session) -> None:
    ids = bury(mq, ["1", "2", "3", "4", "5"])
    first = dead(mq, 2)
    second = dead(mq, 2, after_id=first[-1].message_id)
    redrive(mq, [second[-1].message_id])
    third = dead(mq, 2, after_id=second[-1].message_id)
    assert sorted(r.message_id for r in [*first, *second, *third]) == sorted(ids)
    assert dead(mq, after_id=third[-1].message_id) == []
    with refused("MQ001", "after_id"):
        dead(mq, after_id=77)


def test_pages_of_a_broadcast_group_end(mq: Session) -> None:
    """The dead letters of several members for one message are several rows.

    A page continues after a message and its consumer.
    """
    mq.call("subscribe", "all", "one", mode="broadcast")
    ids = mq.sent_batch("one", ["1", "2", "3"])
    with mq.transaction():
        for member in ("B", "A", "C"):
            mq.nack(mq.receive("one", group="all", consumer=member)[0].receipt, ids, final=True)
    mq.execute("update mqpg.dead_letter set died_at = '2026-01-01'")
    seen: list[tuple[int, str]] = []
    page = dead(mq, 2, group="all")
    while page:
        seen += [(r.message_id, r.consumer) for r in page]
        assert len(seen) <= 9
        last = page[-1]
        if len(seen) == 4:  # what a page ends with may be gone before the next one
            redrive(mq, [last.message_id], group="all")
        page = dead(mq, 2, group="all", after_id=last.message_id, after_consumer=last.consumer)
    whose = [(message_id, member) for message_id in reversed(ids) for member in "CBA"]
    assert seen == [letter for letter in whose if letter not in ((ids[1], "B"), (ids[1], "A"))]


def test_a_page_of_a_broadcast_group_says_whose_letter_was_the_last(mq: Session) -> None:
    mq.call("subscribe", "all", "one", mode="broadcast")
    ids = mq.sent_batch("one", ["1", "2"])
    for member, died in (("A", ids), ("B", ids[:1])):
        mq.nack(mq.receive("one", group="all", consumer=member)[0].receipt, died, final=True)
    with refused("MQ001", "after_consumer"):
        dead(mq, group="all", after_id=ids[0])
    with refused("MQ001", "after_id"):
        dead(mq, group="all", after_id=ids[1], after_consumer="B")
    with refused("MQ001", "after_id"):
        dead(mq, group="all", after_consumer="B")
    assert dead(mq, group="all", after_id=ids[1]) == dead(mq, group="all", after_id=ids[1], after_consumer="A")


def test_looking_by_id_and_by_jsonpath_changes_nothing(mq: Session) -> None:
    ids = bury(mq, ['{"a": 1}', '{"a": 2}', "null"], tags=["x", "y", None])
    assert [r.message_id for r in dead(mq, message_ids=[ids[1], 99])] == [ids[1]]
    rows = mq.rows("select * from mqpg.dead_letters('strict', 'one', filter => '$.a > 1 && $tag == \"y\"')")
    assert [(r.message_id, r.payload, r.tag) for r in rows] == [(ids[1], {"a": 2}, "y")]
    assert len(dead(mq)) == 3


def test_history_has_every_attempt(mq: Session) -> None:
    mq.call("alter_subscription", "g", "one", max_attempts=4, retry_delay=seconds(0))
    sent = mq.sent("one", "1")
    for consumer, reason in (("c1", "first"), ("c2", "second")):
        (message,) = mq.receive("one", consumer=consumer)
        mq.nack(message.receipt, [sent], reason=reason)
        mq.append()
    mq.receive("one", consumer="gone", lease=seconds(0.01))
    (message,) = eventually(lambda: mq.receive("one", consumer="c4"))
    mq.nack(message.receipt, [sent], reason="last")
    (letter,) = dead(mq, group="g")
    assert (letter.attempts, letter.reason) == (4, "last")
    assert [(a["attempt"], a["consumer"], a.get("reason")) for a in letter.history] == [
        (1, "c1", "first"),
        (2, "c2", "second"),
        (3, "gone", None),
        (4, "c4", "last"),
    ]
    assert ["failed_at" in a for a in letter.history] == [True, True, False, True]
    assert all("delivered_at" in a for a in letter.history)


def test_a_message_that_is_in_the_lane_twice_becomes_one_dead_letter(mq: Session) -> None:
    """After a seek back a message may fail again while its retry waits."""
    sent = mq.sent("one", "1")
    for _ in range(2):
        mq.call("seek", "g", "one", "earliest")
        (message,) = mq.receive("one", queue_id=0)
        mq.nack(message.receipt, [sent], delay=seconds(0))
    mq.append()
    mq.call("alter_subscription", "g", "one", max_attempts=1)
    assert mq.receive("one") == []
    assert [letter.message_id for letter in dead(mq, group="g")] == [sent]


@pytest.mark.parametrize(
    "how", [{}, {"mode": "pinned"}, {"on_failure": "block_key"}, {"on_failure": "block_queue"}], ids=str
)
@pytest.mark.parametrize("limit", [1, 3])
def test_a_lower_limit_changes_neither_attempts_nor_reason(mq: Session, how: dict[str, str], limit: int) -> None:
    mq.call("subscribe", "many", "one", **how)
    sent = mq.sent("one", "1", key="a")
    for reason in ("first", "second", "third"):
        (message,) = eventually(lambda: mq.receive("one", group="many", consumer="c"))
        mq.nack(message.receipt, [sent], reason=reason, delay=seconds(0))
        mq.append()
    mq.call("alter_subscription", "many", "one", max_attempts=limit)
    assert mq.receive("one", group="many", consumer="c") == []
    (letter,) = dead(mq, group="many")
    assert (letter.attempts, letter.reason) == (3, "third")
    assert [(a["attempt"], a["reason"]) for a in letter.history] == [(1, "first"), (2, "second"), (3, "third")]


def test_a_lower_limit_and_a_lease_that_ran_out(mq: Session) -> None:
    mq.sent("one", "1")
    for _ in range(3):
        eventually(lambda: mq.receive("one", lease=seconds(0.01)))
    mq.call("alter_subscription", "g", "one", max_attempts=1)
    eventually(lambda: (mq.receive("one"), dead(mq, group="g"))[1])
    (letter,) = dead(mq, group="g")
    assert (letter.attempts, letter.reason) == (3, "lease ran out at the last attempt")


@pytest.mark.parametrize("mode", ["exclusive", "pinned"])
def test_many_retries_without_an_attempt_left_are_buried_in_several_calls(mq: Session, mode: str) -> None:
    mq.call("subscribe", "many", "one", mode=mode)
    ids = mq.sent_batch("one", ["1"] * 300)
    (delivery,) = {m.receipt for m in mq.receive("one", group="many", consumer="c", max_messages=300)}
    mq.nack(delivery, ids, delay=seconds(0))
    mq.append()
    mq.call("alter_subscription", "many", "one", max_attempts=1)
    mq.execute("update mqpg.settings set value = '0 s' where name = 'filter_time'")
    for letters in (100, 200, 300):
        assert mq.receive("one", group="many", consumer="c", max_messages=100) == []
        assert mq.scalar("select count(*) from mqpg.dead_letter") == letters


def test_history_begins_anew_after_a_redrive(mq: Session) -> None:
    mq.call("alter_subscription", "g", "one", max_attempts=2, retry_delay=seconds(0))
    sent = mq.sent("one", "1")
    for reason in ("a", "b"):
        (message,) = mq.receive("one")
        mq.nack(message.receipt, [sent], reason=reason)
        mq.append()
    assert redrive(mq, group="g") == 1
    mq.append()
    for reason in ("c", "d"):
        (message,) = mq.receive("one")
        mq.nack(message.receipt, [sent], reason=reason)
        mq.append()
    (letter,) = dead(mq, group="g")
    assert [(a["attempt"], a["reason"]) for a in letter.history] == [(1, "c"), (2, "d")]
    former = mq.rows("select fate, history from mqpg.former_dead_letter")
    assert [(f.fate, [a["reason"] for a in f.history]) for f in former] == [("redriven", ["a", "b"])]
    assert [e for e in story(mq, sent) if e in ("dead", "redriven", "retry")] == [
        "retry", "dead", "redriven", "retry", "dead",
    ]  # fmt: skip


# redrive


def test_all_go_back_to_their_subscription_only_with_attempts_from_one(mq: Session) -> None:
    ids = bury(mq, ["1", "2", "3"])
    bury(mq, ["4"], group="other")
    mq.drain("one")
    mq.drain("one", group="strict")
    assert redrive(mq) == 3
    assert redrive(mq) == 0
    assert dead(mq) == []
    assert mq.append() == 3
    assert [(r.message_id, r.attempt, r.queue_id) for r in mq.drain("one", group="strict")] == [(i, 1, -1) for i in ids]
    assert mq.receive("one") == []
    assert len(dead(mq, group="other")) == 1
    assert mq.receive("one", group="other") == []


@pytest.mark.parametrize("call", ["redrive", "discard_dead_letters"])
def test_chosen_by_id_by_jsonpath_and_by_number(mq: Session, call: str) -> None:
    ids = bury(mq, [json.dumps({"n": n}) for n in range(8)])
    assert mq.value(call, "strict", "one", [ids[7], 12345]) == 1
    assert mq.value(call, "strict", "one", [ids[7]]) == 0
    assert chosen(mq, call, "$.n < 2") == 2
    assert chosen(mq, call, "$.missing == 1") == 0
    assert mq.value(call, "strict", "one", max_messages=2) == 2
    assert sorted(r.message_id for r in dead(mq)) == [ids[4], ids[5], ids[6]]
    assert mq.scalar(f"select mqpg.{call}('strict', 'one', '{{}}')") == 0
    assert mq.value(call, "strict", "one") == 3


def test_discarded_letters_are_gone_and_traced(mq: Session) -> None:
    (sent,) = bury(mq, ["1"])
    assert mq.value("discard_dead_letters", "strict", "one") == 1
    assert mq.append() == 0
    assert mq.receive("one", group="strict") == []
    assert story(mq, sent)[-3:] == ["delivered", "dead", "discarded"]


@pytest.mark.parametrize("second", ["redrive", "discard_dead_letters"])
def test_two_at_once_take_each_letter_once(mq: Session, broker: Broker, other: Session, second: str) -> None:
    bury(mq, ["1", "2", "3"])
    with mq.transaction():
        assert redrive(mq, max_messages=2) == 2
        waiting = broker.blocked(other, other.value, second, "strict", "one")
    assert waiting.result(45) == 1
    mq.append()
    expected = 3 if second == "redrive" else 2
    assert len(mq.drain("one", group="strict")) == expected


def test_who_waited_takes_what_the_first_rolled_back(mq: Session, broker: Broker, other: Session) -> None:
    bury(mq, ["1", "2"])
    with mq.transaction():
        redrive(mq)
        waiting = broker.blocked(other, other.value, "redrive", "strict", "one")
        raise psycopg.Rollback
    assert waiting.result(45) == 2
    assert mq.append() == 2


def test_many_redrives_race(mq: Session, broker: Broker) -> None:
    ids = bury(mq, [str(n) for n in range(200)], topic="t")
    sessions = [broker.session() for _ in range(6)]

    def work(session: Session) -> int:
        total = 0
        while n := redrive(session, topic="t", max_messages=7):
            total += n
        return total

    assert sum(f.result(30) for f in [broker.background(work, s) for s in sessions]) == 200
    mq.append()
    rows: list[int] = []
    while got := mq.receive("t", group="strict"):
        rows += [m.message_id for m in got]
        mq.ack(got[0].receipt)
    assert sorted(rows) == sorted(ids)


def test_a_redriven_message_outlives_its_dead_letter(mq: Session) -> None:
    """keep() must leave the message readable, first as a dead letter and then in the retry lane."""
    (sent,) = bury(mq, ["1"])
    why = "select array_agg(distinct why order by why) from mqpg._survivors(%s, %s, 1000000, null)"
    assert mq.scalar(why, sent, sent + 1) == ["dead"]
    redrive(mq)
    assert mq.scalar(why, sent, sent + 1) == ["retry"]
    mq.append()
    why = why.replace("1000000", "-1")
    assert "queued" in mq.scalar(why, sent, sent + 1)
