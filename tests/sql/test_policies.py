"""Groups that do not read pin what they have not read and no more, are listed, and lose messages
only by policy, never silently.
"""

import json
import secrets
from typing import Any

import pytest

from tests.support.broker import Broker, Session, refused, seconds
from tests.support.retention import dropped, gone, keep, payloads, retain, roll

pytestmark = pytest.mark.own_database  # segments roll


def policy(mq: Session, topic: str = "one", **named: object) -> None:
    mq.call("alter_topic", topic, **named)


def losses(mq: Session) -> list[tuple[Any, ...]]:
    sql = "select topic, consumer_group, queue_id, from_offset, to_offset, messages, why from mqpg.losses"
    return [tuple(row) for row in mq.rows(sql)]


def offsets(mq: Session, topic: str = "one") -> tuple[int, int]:
    (row,) = mq.rows("select oldest_offset, next_offset from mqpg.queue_depth where topic = %s", topic)
    return (row.oldest_offset, row.next_offset)


def slow_group(mq: Session, group: str = "dead", topic: str = "one") -> None:
    mq.call("subscribe", group, topic)


# what a group pins


def test_I11_a_dead_group_pins_what_it_has_not_read_and_no_more(brisk: Session) -> None:
    slow_group(brisk)
    brisk.execute("update mqpg.settings set value = '5' where name = 'held_limit'")
    wanted = brisk.send_batch("one", ["1", "2", "3"])
    brisk.sent_batch("t", ["0"] * 50)
    brisk.drain("one")
    brisk.drain("t")
    reported = roll(brisk)
    assert ("freed", "tick", 1) in [row[:3] for row in reported]
    gone(brisk, {"commit_log_1"}, reported)
    assert [row.message_id for row in brisk.rows("select message_id from mqpg.held order by 1")] == wanted
    assert brisk.scalar("select bool_and(oldest_offset = next_offset) from mqpg.queue_depth where topic = 't'")
    assert payloads(brisk.drain("one", group="dead")) == [1, 2, 3]
    gone(brisk, {"consume_queue_1"}, keep(brisk))


def test_what_is_read_of_the_pinned_queue_itself_goes_too(brisk: Session) -> None:
    slow_group(brisk)
    brisk.execute("update mqpg.settings set value = '5' where name = 'held_limit'")
    ids = [brisk.send("one", str(i)) for i in range(12)]
    brisk.delivered("one")
    brisk.ack(brisk.receive("one", group="dead", max_messages=9)[-1].receipt)
    gone(brisk, {"commit_log_1"}, roll(brisk))
    assert [row.message_id for row in brisk.rows("select message_id from mqpg.held order by 1")] == ids[9:]
    assert offsets(brisk) == (9, 12)
    with refused("MQ013"):
        brisk.call("fetch", "one", 0, 8)
    brisk.call("seek", "g", "one", "0", queue_id=0)
    assert payloads(brisk.drain("one")) == [9, 10, 11]
    brisk.call("subscribe", "new", "one")
    assert payloads(brisk.drain("one", group="new")) == [9, 10, 11]


def test_the_view_pins_names_who_pins_what(brisk: Session) -> None:
    slow_group(brisk)
    brisk.sent_batch("one", ['"' + "x" * 1000 + '"'] * 40)
    brisk.drain("one")
    assert brisk.rows("select from mqpg.pins") == []
    brisk.ack(brisk.receive("one", group="dead", max_messages=10)[0].receipt)
    roll(brisk)
    (pin,) = brisk.rows("select * from mqpg.pins")
    assert (pin.consumer_group, pin.topic, pin.queue_id, pin.segment_no) == ("dead", "one", 0, 1)
    assert (pin.from_offset, pin.to_offset, pin.messages) == (10, 40, 30)
    assert 0 < pin.bytes < 100_000
    assert pin.age > seconds(0)


def test_a_broadcast_group_without_members_pins_nothing_and_a_member_does(brisk: Session) -> None:
    brisk.call("subscribe", "b", "one", mode="broadcast")
    brisk.sent("one", "1")
    brisk.drain("one")
    gone(brisk, {"consume_queue_1"}, roll(brisk))
    brisk.receive("one", group="b", consumer="c1")
    brisk.sent("one", "2")
    brisk.drain("one")
    assert any(row[0] == "pinned" and "b / c1" in row[3] for row in roll(brisk))
    assert payloads(brisk.drain("one", group="b", consumer="c1")) == [2]


# policies


def test_I11_lose_after_frees_the_segment_and_says_what_was_lost(brisk: Session, broker: Broker) -> None:
    slow_group(brisk)
    brisk.sent_batch("one", ["1", "2", "3"])
    brisk.drain("one")
    listener = broker.session("listen mqpg_loss")
    warnings: list[str] = []
    brisk.conn.add_notice_handler(lambda notice: warnings.append(str(notice.message_primary)))
    assert "consume_queue_1" not in dropped(roll(brisk))
    policy(brisk, lose_after=seconds(3600))
    assert "consume_queue_1" not in dropped(keep(brisk))
    assert losses(brisk) == []
    policy(brisk, lose_after=seconds(0.001))
    reported = keep(brisk)
    said = "dead lost 3 messages of one queue 0 before offset 3 by policy (age)"
    assert ("lost", "tick", 1, said) in reported
    assert said in warnings
    gone(brisk, {"consume_queue_1"}, reported)
    assert losses(brisk) == [("one", "dead", 0, 0, 3, 3, "age")]
    (note,) = list(listener.conn.notifies(timeout=45, stop_after=1))
    assert json.loads(note.payload) | {"member": None} == {
        "topic": "one", "consumer_group": "dead", "member": None, "queue_id": 0, "messages": 3, "before": 3,
        "why": "age",
    }  # fmt: skip
    brisk.sent("one", "4")
    assert payloads(brisk.drain("one", group="dead")) == [4]


def test_a_policy_of_another_topic_and_none_lose_nothing(brisk: Session) -> None:
    slow_group(brisk)
    policy(brisk, "t", lose_after=seconds(0.001))
    policy(brisk, lose_after=seconds(0.001))
    policy(brisk, lose_after=seconds(0))
    brisk.sent("one", "1")
    brisk.drain("one")
    assert not any(row[0] == "lost" for row in roll(brisk))
    assert payloads(brisk.drain("one", group="dead")) == [1]


def test_nothing_is_lost_before_the_retention_is_over(brisk: Session) -> None:
    slow_group(brisk)
    retain(brisk, "1 day")
    policy(brisk, lose_after=seconds(0.001), lose_over=1)
    brisk.sent("one", "1")
    assert not any(row[0] == "lost" for row in roll(brisk))
    assert payloads(brisk.drain("one", group="dead")) == [1]


def test_lose_over_goes_by_what_the_group_left_unread(brisk: Session) -> None:
    slow_group(brisk)
    policy(brisk, lose_over=30_000)
    brisk.send_batch("one", [json.dumps(secrets.token_hex(495)) for _ in range(20)])  # nothing to compress
    brisk.delivered("one")
    reported = roll(brisk)
    assert not any(row[0] == "lost" for row in reported)
    brisk.send_batch("one", [json.dumps(secrets.token_hex(495)) for _ in range(20)])  # nothing to compress
    brisk.delivered("one")
    reported = roll(brisk)
    lost = [row[3] for row in reported if row[0] == "lost"]
    assert lost == ["dead lost 20 messages of one queue 0 before offset 20 by policy (size)"]
    assert losses(brisk) == [("one", "dead", 0, 0, 20, 20, "size")]
    assert len(brisk.drain("one", group="dead")) == 20


def test_retries_in_the_lane_are_lost_by_age_too(brisk: Session) -> None:
    brisk.sent("one", "1")
    (message,) = brisk.receive("one")
    brisk.nack(message.receipt, [message.message_id], delay=seconds(0))
    brisk.append()
    policy(brisk, lose_after=seconds(0.001))
    assert ("lost", "tick", 1, "g lost 1 messages of one retries before offset 1 by policy (age)") in roll(brisk)
    assert brisk.receive("one") == []


def test_a_claim_keeps_what_lies_behind_the_loss(brisk: Session) -> None:
    retain(brisk, "1 day")
    brisk.sent_batch("one", ["1", "2"])
    roll(brisk)
    brisk.sent_batch("one", ["3", "4"])
    rows = brisk.receive("one")
    retain(brisk, "0 s")
    policy(brisk, lose_after=seconds(0.001))
    assert [row[3] for row in keep(brisk) if row[0] == "lost"] == [
        "g lost 2 messages of one queue 0 before offset 2 by policy (age)"
    ]
    with refused("MQ001", "message_ids"):
        brisk.nack(rows[0].receipt, [rows[0].message_id])
    brisk.nack(rows[0].receipt, [rows[2].message_id], delay=seconds(60))
    brisk.ack(rows[0].receipt)
    assert brisk.scalar("select lag from mqpg.subscription_lag where topic = 'one' and queue_id = 0") == 0


def test_a_queue_in_use_is_left_for_the_next_pass(brisk: Session, broker: Broker) -> None:
    retain(brisk, "1 day")
    policy(brisk, lose_after=seconds(0.001))
    brisk.sent("one", "1")
    roll(brisk)
    retain(brisk, "0 s")
    with broker.transaction() as taker:
        (message,) = taker.receive("one")
        assert not any(row[0] == "lost" for row in keep(brisk))
        taker.ack(message.receipt)
    gone(brisk, {"consume_queue_1"}, keep(brisk))
    assert losses(brisk) == []


# dropping and others
