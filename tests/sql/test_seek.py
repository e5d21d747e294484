"""seek and start positions: where a group goes, that its receipts are stale, and what is recorded."""

import time
from typing import Any

from tests.support.broker import Broker, Session, refused, seconds


def fill(mq: Session, n: int, *, topic: str = "one", pause: float = 0.0) -> list[Any]:
    """Send n messages, each in a tick of its own, and return the database's time before each of them."""
    times = []
    for i in range(n):
        times.append(mq.scalar("select clock_timestamp()"))
        mq.sent(topic, str(i))
        time.sleep(pause)
    return times


def next_payload(mq: Session, topic: str = "one", **named: Any) -> Any:
    rows = mq.receive(topic, max_messages=1, **named)
    return rows[0].payload if rows else None


def jumps(mq: Session) -> list[tuple[Any, ...]]:
    sql = "select queue_id, from_offset, to_offset, why, back from mqpg.position_jump order by jump_id"
    return [tuple(row) for row in mq.rows(sql)]


def test_earliest_and_latest(mq: Session) -> None:
    fill(mq, 5)
    assert len(mq.drain("one")) == 5
    mq.call("seek", "g", "one", "earliest")
    assert [m.payload for m in mq.drain("one")] == [0, 1, 2, 3, 4]
    mq.sent("one", "5")
    mq.call("seek", "g", "one", "latest")
    assert mq.drain("one") == []
    mq.sent("one", "6")
    assert next_payload(mq) == 6


def test_an_offset_needs_a_queue_and_lies_in_it(mq: Session) -> None:
    fill(mq, 5)
    mq.call("seek", "g", "one", "3", queue_id=0)
    assert next_payload(mq) == 3
    mq.call("seek", "g", "one", "5", queue_id=0)
    assert next_payload(mq) is None
    with refused("MQ001", "queue_id"):
        mq.call("seek", "g", "one", "3")
    for beyond in ("6", "-1", "99999999999999999999999"):
        with refused("MQ013", "between 0 and the next offset 5"):
            mq.call("seek", "g", "one", beyond, queue_id=0)
    with refused("MQ001", "queue_id"):
        mq.call("seek", "g", "one", "0", queue_id=1)


def test_a_time_is_the_first_message_visible_then_or_later(mq: Session) -> None:
    times = fill(mq, 20)
    for i in (0, 1, 7, 13, 19):
        mq.call("seek", "g", "one", str(times[i]))
        assert next_payload(mq) == i
    mq.call("seek", "g", "one", str(mq.scalar("select clock_timestamp()")))
    assert next_payload(mq) is None
    mq.call("seek", "g", "one", "2001-01-01")
    assert next_payload(mq) == 0
    mq.call("seek", "g", "one", "infinity")
    assert next_payload(mq) is None


def test_a_time_on_every_queue_of_a_topic(mq: Session) -> None:
    for _ in range(6):
        mq.sent_batch("t", ["0"] * 40, keys=[str(k) for k in range(40)])
    after = mq.scalar("select clock_timestamp()")
    late = mq.sent_batch("t", ["1"] * 40, keys=[str(k) for k in range(40)])
    mq.call("seek", "g", "t", str(after))
    assert sorted(m.message_id for m in mq.drain("t")) == sorted(late)


def test_a_time_counts_from_the_pass_not_from_the_send(mq: Session) -> None:
    """A message that was sent before the time and became visible after it is not left out."""
    mq.send("one", '"sent before"')
    between = mq.scalar("select clock_timestamp()")
    mq.append()
    mq.call("seek", "g", "one", str(between))
    assert next_payload(mq) == "sent before"


def test_subscribe_at_a_time(mq: Session) -> None:
    times = fill(mq, 6)
    mq.call("subscribe", "late", "one", start=str(times[4]))
    assert [m.payload for m in mq.drain("one", group="late")] == [4, 5]
    mq.call("subscribe", "late", "one", start=str(times[4]))
    with refused("MQ011"):
        mq.call("subscribe", "late", "one", start=str(times[3]))


def test_finding_a_time_does_not_read_the_log(mq: Session) -> None:
    """The search uses index lookups only.

    The number of buffers grows with the logarithm of the queue's length.
    """

    def buffers() -> int:
        plan = mq.scalar(
            "explain (analyze, buffers, format json) select mqpg._offset_at_time(t.topic_id, 0, 0, %s)"
            " from mqpg.topic t where t.name = 'one'",
            middle,
        )
        return int(plan[0]["Plan"]["Shared Hit Blocks"]) + int(plan[0]["Plan"]["Shared Read Blocks"])

    def grow(n: int) -> int:
        mq.execute(
            "with tail as (select t.tick_id, t.at, mqpg._tail(k.topic_id, 0, 0) as next_offset, k.topic_id"
            "   from mqpg.topic k, lateral (select * from mqpg.tick order by tick_id desc limit 1) t"
            "   where k.name = 'one'),"
            " ticks as (insert into mqpg.tick select tail.tick_id + i, xid, snapshot, snapshot_xmax, batch_seq,"
            "   floor_id, due_until, 1, topic_ids, tail.at + i * interval '1 ms' from tail, generate_series(1, %s) i,"
            "   lateral (select * from mqpg.tick order by tick_id desc limit 1) k)"
            " insert into mqpg.consume_queue select next_offset + i - 1, tick_id + i, topic_id, 0, 1, 0, array[1024],"
            "   array[0] from tail, generate_series(1, %s) i",
            n,
            n,
        )
        mq.execute("analyze mqpg.tick, mqpg.consume_queue")
        buffers()
        return buffers()

    fill(mq, 2)
    middle = mq.scalar("select at + interval '1 s' from mqpg.tick order by tick_id desc limit 1")
    small = grow(4_000)
    assert grow(36_000) < small * 1.7


def test_a_seek_to_where_it_stands_spends_no_version(mq: Session) -> None:
    versions = mq.scalar("select count(*) from mqpg.cursor")
    mq.call("seek", "g", "one", "latest")
    assert mq.scalar("select count(*) from mqpg.cursor") == versions


def test_what_a_seek_leaves_out_is_noted_and_taken_back(mq: Session) -> None:
    fill(mq, 10)
    mq.ack(mq.receive("one", max_messages=2)[0].receipt)
    mq.receive("one", max_messages=2)
    mq.call("seek", "g", "one", "8", queue_id=0)
    assert jumps(mq) == [(0, 2, 4, "seek", False), (0, 4, 8, "seek", False)]
    mq.call("seek", "g", "one", "3", queue_id=0)
    assert jumps(mq) == [(0, 2, 3, "seek", False), (0, 3, 8, "seek", True)]
    mq.call("seek", "g", "one", "0", queue_id=0)
    assert jumps(mq) == [(0, 3, 8, "seek", True), (0, 0, 3, "seek", True)]


def test_pinned_queues_keep_their_owner(mq: Session) -> None:
    mq.call("subscribe", "p", "one", mode="pinned")
    fill(mq, 3)
    (message,) = mq.receive("one", group="p", consumer="c1", max_messages=1)
    mq.call("seek", "p", "one", "latest")
    with refused("MQ009"):
        mq.ack(message.receipt)
    mq.sent("one", "9")
    assert mq.receive("one", group="p", consumer="c2") == []
    assert [m.payload for m in mq.receive("one", group="p", consumer="c1")] == [9]


def test_shared_subscriptions_lose_all_open_claims(mq: Session) -> None:
    mq.call("subscribe", "s", "one", mode="shared")
    fill(mq, 4)
    open_ones = [mq.receive("one", group="s", max_messages=1)[0] for _ in range(3)]
    mq.call("seek", "s", "one", "earliest")
    for message in open_ones:
        with refused("MQ009"):
            mq.ack(message.receipt)
    assert [m.payload for m in mq.drain("one", group="s")] == [0, 1, 2, 3]


def test_broadcast_all_members_or_one(mq: Session) -> None:
    mq.call("subscribe", "b", "one", mode="broadcast")
    fill(mq, 3)
    for name in ("c1", "c2"):
        assert len(mq.drain("one", group="b", consumer=name)) == 3
    mq.call("seek", "b", "one", "1", queue_id=0, consumer="c1")
    assert len(mq.drain("one", group="b", consumer="c1")) == 2
    assert mq.drain("one", group="b", consumer="c2") == []
    mq.call("seek", "b", "one", "2", queue_id=0)
    for name in ("c1", "c2", "new"):
        assert [m.payload for m in mq.drain("one", group="b", consumer=name)] == [2]
    with refused("MQ001", "not a member"):
        mq.call("seek", "b", "one", "earliest", consumer="nobody")


def test_the_retry_lane_moves_only_by_name(mq: Session) -> None:
    fill(mq, 1)
    (message,) = mq.receive("one")
    mq.nack(message.receipt, [message.message_id], delay=seconds(0))
    mq.append()
    mq.call("seek", "g", "one", "latest")
    assert mq.scalar("select lag from mqpg.subscription_lag where topic = 'one' and queue_id = -1") == 1
    mq.call("seek", "g", "one", "latest", queue_id=-1)
    assert mq.receive("one") == []


# locks


def test_receive_passes_over_a_queue_that_is_being_moved(mq: Session, broker: Broker, other: Session) -> None:
    fill(mq, 2)
    with mq.transaction():
        mq.call("seek", "g", "one", "1", queue_id=0)
        assert broker.background(other.receive, "one").result(45) == []
    assert [m.payload for m in other.receive("one")] == [1]


def test_I7_positions_go_back_by_seek_only(mq: Session) -> None:
    """Whatever moves a cursor, only versions that a seek wrote lie before their predecessors."""
    fill(mq, 6)
    mq.execute("update mqpg.tick set at = at - interval '1 hour'")
    mq.call("alter_topic", "one", message_ttl=seconds(600))
    fill(mq, 6)
    rows = mq.receive("one", max_messages=3)
    mq.nack(rows[0].receipt, [rows[0].message_id], delay=seconds(0))
    mq.call("release", rows[0].receipt)
    mq.ack(mq.receive("one", max_messages=2, queue_id=0)[0].receipt)
    mq.call("seek", "g", "one", "8", queue_id=0)
    mq.drain("one")
    mq.call("purge_topic", "one")
    mq.call("seek", "g", "one", "earliest")
    mq.drain("one")
    back = mq.rows(
        "select action from (select c.*, lag(committed) over w as before, lag(claimed) over w as claimed_before"
        " from mqpg.cursor c window w as (partition by subscription_id, queue_id order by version)) as v"
        " where committed < before or claimed < claimed_before"
    )
    assert len(back) == 2
    assert {row.action for row in back} == {"q"}
