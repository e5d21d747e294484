"""Acknowledging single messages of a delivery: in any order, and no other message is lost."""

from typing import Any

import pytest

from tests.support.broker import Session, refused, seconds


@pytest.fixture(params=["exclusive", "shared", "pinned", "broadcast"])
def moded(request: pytest.FixtureRequest, mq: Session) -> Session:
    """A broker whose group `s` reads topic `one`, with five messages, in each mode."""
    mq.call("subscribe", "s", "one", mode=request.param, retry_delay=seconds(0))
    mq.sent_batch("one", [str(n) for n in range(5)])
    return mq


def receive(mq: Session, lease: float = 30) -> list[Any]:
    return mq.receive("one", group="s", consumer="me", lease=seconds(lease))


def again(mq: Session) -> list[tuple[int, int]]:
    """Let the lease end, and receive what is left."""
    mq.execute("select pg_sleep(0.06)")
    return [(m.queue_offset, m.attempt) for m in receive(mq)]


def committed(mq: Session) -> int:
    sql = "select committed from mqpg.subscription_lag where queue_id = 0 and consumer_group = 's' and topic = 'one'"
    return int(mq.scalar(sql))


def test_what_lies_before_an_acknowledged_message_is_not_lost(moded: Session) -> None:
    receipt = receive(moded, 0.05)[0].receipt
    moded.ack(receipt, offsets=[2])
    assert committed(moded) == 0
    moded.ack(receipt, offsets=[0])
    assert committed(moded) == 1
    assert again(moded) == [(1, 2), (3, 2), (4, 2)]


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_one_by_one_in_any_order(moded: Session, order: list[int]) -> None:
    receipt = receive(moded, 0.05)[0].receipt
    for offset in order:
        moded.ack(receipt, offsets=[offset])
    assert committed(moded) == 5
    moded.ack(receipt, offsets=[order[-1]])
    with refused("MQ008", "whole delivery"):
        moded.call("release", receipt)
    assert again(moded) == []


def test_several_at_once_and_twice(moded: Session) -> None:
    receipt = receive(moded, 0.05)[0].receipt
    moded.ack(receipt, offsets=[3, 1, 3])
    versions = moded.scalar("select count(*) from mqpg.cursor")
    moded.ack(receipt, offsets=[1])
    moded.execute("select mqpg.ack(%s, offsets => '{}')", receipt)
    assert moded.scalar("select count(*) from mqpg.cursor") == versions
    moded.ack(receipt, offsets=[1, 0])
    moded.ack(receipt, offsets=[0])
    assert committed(moded) == 2
    assert again(moded) == [(2, 2), (4, 2)]


def test_together_with_the_other_calls(moded: Session) -> None:
    rows = receive(moded)
    receipt = rows[0].receipt
    moded.ack(receipt, offsets=[3])
    with refused("MQ001", "not, or no longer"):
        moded.nack(receipt, [rows[3].message_id])
    moded.nack(receipt, [rows[1].message_id])
    moded.ack(receipt, offsets=[1])  # nacked before: it comes again all the same
    moded.call("extend", receipt, seconds(30))
    moded.ack(receipt, through=1)
    assert committed(moded) == 2
    moded.call("release", receipt)
    moded.append()
    lanes = [receive(moded), receive(moded)]
    assert sorted((m.queue_id, m.payload, m.attempt) for lane in lanes for m in lane) == [
        (-1, 1, 2), (0, 2, 1), (0, 4, 1),
    ]  # fmt: skip


def test_a_purge_does_not_count_what_was_acknowledged(mq: Session) -> None:
    mq.sent_batch("one", ["1"] * 5)
    mq.ack(mq.receive("one")[0].receipt, offsets=[1, 1, 3])
    assert mq.value("purge_topic", "one") == 3


def test_of_a_filtered_delivery(mq: Session) -> None:
    mq.call("subscribe", "s", "one", filter="$ > 0")
    mq.sent_batch("one", ["1", "0", "2", "3"])
    rows = receive(mq, 0.05)
    mq.ack(rows[0].receipt, offsets=[1])  # not chosen, so there is nothing to acknowledge
    mq.ack(rows[0].receipt, offsets=[2])
    assert again(mq) == [(0, 2), (3, 2)]


def test_behind_a_blocked_message(mq: Session) -> None:
    """What was acknowledged is not returned with the failed message of its key."""
    mq.call("subscribe", "s", "one", on_failure="block_key", retry_delay=seconds(0))
    ids = mq.sent_batch("one", ["0", "1", "2", "3"], keys=["a", "a", "a", "b"])
    receipt = receive(mq)[0].receipt
    mq.ack(receipt, offsets=[1])
    mq.nack(receipt, [ids[0]])
    mq.ack(receipt, offsets=[3])
    found: list[Any] = []
    while rows := receive(mq):
        found += [row.payload for row in rows]
        mq.ack(rows[0].receipt, offsets=[row.queue_offset for row in rows])
    assert found == [0, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        "offsets => '{0}'",
        "offsets => '{1,5}'",
        "offsets => '{-9223372036854775808}'",
        "offsets => '{1,null}'",
        "offsets => '{{1}}'",
        "offsets => '{1}', through => 1",
    ],
)
def test_offsets_outside_the_delivery_change_nothing(mq: Session, arguments: str) -> None:
    mq.sent_batch("one", ["1"] * 5)
    mq.ack(mq.receive("one", max_messages=1)[0].receipt)
    receipt = mq.receive("one")[0].receipt
    versions = mq.scalar("select count(*) from mqpg.cursor")
    with refused("MQ001", "offsets"):
        mq.execute(f"select mqpg.ack(%s, {arguments})", receipt)
    assert mq.scalar("select count(*) from mqpg.cursor") == versions
