"""Reading ranges of a queue, a position that follows offsets which are stored elsewhere, and batches that are repeated."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.broker import Broker, Session, refused
from tests.support.retention import age, retain, roll


def read(mq: Session, topic: str, first: int, after: int, **named: object) -> list[tuple[int, Any]]:
    rows = mq.call("fetch_range", topic, 0, first, after, **named)
    return [(row.queue_offset, row.payload) for row in rows]


def batches(mq: Session, topic: str, first: int, after: int) -> list[tuple[Any, ...]]:
    """The messages of a range by fetch_batches(), with the columns of fetch_range()."""
    found: list[tuple[Any, ...]] = []
    for run in mq.call("fetch_batches", topic, 0, first, after):
        lists = [column or [None] * run.n for column in (run.keys, run.tags, run.headers, run.payloads)]
        found += [
            (run.queue_offset + i, run.message_id + i, *values, run.born_at, run.appended_at)
            for i, values in enumerate(zip(*lists, strict=True))
        ]
    return found


def advance(mq: Session, topic: str, queues: list[int], offsets: list[int], identity: str | None = None) -> None:
    mq.execute("select mqpg.advance('g', %s, %s::int[], %s::bigint[], %s)", topic, queues, offsets, identity)


def position(mq: Session, topic: str = "one") -> int:
    found = mq.scalar(
        "select committed from mqpg.subscription_lag where consumer_group = 'g' and topic = %s and queue_id = 0", topic
    )
    return int(found)


@pytest.fixture
def filled(mq: Session) -> Session:
    """Topic `one` has the offsets 0 to 39: batches, single messages and a message of a final payload."""
    mq.send_batch("one", [str(i) for i in range(20)], keys=["k"] * 20)
    for i in range(20, 39):
        mq.send("one", str(i), tag="t", headers='{"h": 1}')
    mq.commit(mq.prepare("one", "0"), "39")
    mq.append()
    return mq


def test_a_range_has_each_offset_once_and_in_order(filled: Session) -> None:
    whole = filled.call("fetch_range", "one", 0, 0, 40)
    assert [row.payload for row in whole] == list(range(40))
    fetched = filled.call("fetch", "one", 0, 0, 40)
    names = ("queue_offset", "message_id", "key", "tag", "headers", "payload", "born_at")
    assert [[getattr(row, name) for name in names] for row in whole] == [
        [getattr(row, name) for name in names] for row in fetched
    ]
    ticks = filled.rows("select distinct at from mqpg.tick join mqpg.consume_queue using (tick_id)")
    assert {row.appended_at for row in whole} == {row.at for row in ticks}
    for first, after in ((0, 0), (0, 1), (7, 13), (19, 22), (25, 40), (40, 40)):
        assert read(filled, "one", first, after) == [(i, i) for i in range(first, after)]
        assert batches(filled, "one", first, after) == list(
            map(tuple, filled.call("fetch_range", "one", 0, first, after))
        )
    assert len(filled.call("fetch_batches", "one", 0, 0, 20)) == 1


def test_a_range_has_several_rows_of_a_queue(mq: Session) -> None:
    for part in range(3):
        mq.sent_batch("one", [str(i) for i in range(part * 6000, part * 6000 + 6000)])
    assert mq.scalar("select count(*) from mqpg.consume_queue") > 3
    for first, after in ((0, 18000), (4000, 4100), (5999, 12001), (17999, 18000)):
        assert read(mq, "one", first, after) == [(i, i) for i in range(first, after)]


@pytest.mark.own_database
def test_what_retention_took_raises_and_what_it_kept_is_read(mq: Session) -> None:
    age(mq, "6 hours")
    mq.sent_batch("one", ["0", "1", "2"])
    mq.drain("one")
    mq.sent_batch("one", ["3", "4"])
    retain(mq, "0 s")
    roll(mq)
    (row,) = mq.call("topic_offsets", "one")
    assert (row.oldest_offset, row.next_offset) == (3, 5)
    assert mq.scalar("select count(*) from mqpg.held") == 2, "the segment is gone"
    assert read(mq, "one", 3, 5) == [(3, 3), (4, 4)]
    assert batches(mq, "one", 3, 5) == list(map(tuple, mq.call("fetch_range", "one", 0, 3, 5)))
    mq.execute("delete from mqpg.held where payload::text = '4'")
    mq.execute("update mqpg.segment set body_dropped_at = body_dropped_at - interval '1 hour'")
    with refused("MQ014", "offsets 3 to 4"):
        read(mq, "one", 3, 5)
    with refused("MQ013", "oldest offset 3"):
        read(mq, "one", 2, 5)


def test_offsets_of_a_time(filled: Session) -> None:
    (tick,) = filled.rows("select at from mqpg.tick order by tick_id desc limit 1")
    second = timedelta(seconds=1)
    for at, offset in ((tick.at, 0), (tick.at - second, 0), (tick.at + timedelta(microseconds=1), 40), (None, None)):
        (row,) = filled.call("topic_offsets", "one", at)
        assert (row.oldest_offset, row.next_offset, row.offset_at) == (0, 40, offset)
    assert len(filled.call("topic_offsets", "t", datetime.now(UTC))) == 4


def test_a_topic_that_is_created_again_is_another_one(filled: Session) -> None:
    before = filled.call("topic_offsets", "one")[0].identity
    assert len(read(filled, "one", 0, 40, identity=before)) == 40
    filled.call("drop_topic", "one", force=True)
    filled.subscribed("one")
    filled.sent_batch("one", ["1"] * 50)
    with refused("MQ003", "created again"):
        read(filled, "one", 0, 40, identity=before)
    with refused("MQ003", "created again"):
        advance(filled, "one", [0], [40], identity=before)
    assert filled.call("topic_offsets", "one")[0].identity != before


def test_a_position_follows(filled: Session) -> None:
    advance(filled, "one", [0], [0])
    assert filled.scalar("select count(*) from mqpg.cursor") == 7, "nothing moved, so nothing is written"
    advance(filled, "one", [0], [10])
    advance(filled, "one", [0], [10])
    assert position(filled) == 10
    assert [row.payload for row in filled.receive("one", max_messages=2)] == [10, 11]


def test_a_position_that_disagrees_is_told(filled: Session) -> None:
    advance(filled, "one", [0], [10])
    with refused("MQ013", "beyond it"):
        advance(filled, "one", [0], [9])
    filled.call("seek", "g", "one", "5", 0)
    with refused("MQ013", "moved back"):
        advance(filled, "one", [0], [15])
    advance(filled, "one", [0], [5])  # a new reader begins there
    advance(filled, "one", [0], [15])
    assert position(filled) == 15
    delivery = filled.receive("one", max_messages=2)
    with refused("MQ013", "a consumer"):
        advance(filled, "one", [0], [20])
    filled.ack(delivery[0].receipt)
    with refused("MQ013", "beyond it"):
        advance(filled, "one", [0], [16])
    advance(filled, "one", [0], [40])
    assert position(filled) == 40


def test_one_queue_that_disagrees_leaves_all(mq: Session) -> None:
    mq.sent_batch("t", ["1"] * 400, keys=[str(i) for i in range(400)])
    tails = [row.next_offset for row in mq.call("topic_offsets", "t")]
    with refused("MQ013"):
        advance(mq, "t", [0, 1, 2, 3], [*tails[:3], tails[3] + 1])
    assert mq.scalar("select sum(committed) from mqpg.subscription_lag where consumer_group = 'g' and topic = 't'") == 0
    advance(mq, "t", [3, 2, 1, 0], tails[::-1])
    assert mq.scalar("select sum(lag) from mqpg.subscription_lag where consumer_group = 'g' and topic = 't'") == 0


@pytest.mark.own_database
def test_retention_waits_for_the_position(mq: Session) -> None:
    mq.call("unsubscribe", "g", "t")
    mq.sent_batch("one", ["0", "1", "2"])
    retain(mq, "0 s")
    roll(mq)
    assert read(mq, "one", 0, 3) == [(0, 0), (1, 1), (2, 2)]
    advance(mq, "one", [0], [2])
    roll(mq)
    (row,) = mq.call("topic_offsets", "one")
    assert row.oldest_offset == 2


def test_a_batch_is_committed_once(mq: Session) -> None:
    first = [mq.prepare("one", str(i)) for i in range(3)]
    again = [mq.prepare("one", str(i)) for i in range(3)]
    assert mq.value("commit_once", "pg", first, "query", 0)
    assert not mq.value("commit_once", "pg", first, "query", 0), "its answer was lost"
    assert not mq.value("commit_once", "pg", again, "query", 0)
    assert mq.value("commit_once", "pg", [mq.prepare("one", "3")], "query", 1)
    assert mq.value("commit_once", "pg", [mq.prepare("one", "4")], "other", 0)
    assert mq.value("commit_once", "pg", [mq.prepare("one", "5")])
    mq.append()
    assert [row[1] for row in read(mq, "one", 0, 6)] == [0, 1, 2, 3, 4, 5]
    assert mq.scalar("select count(*) from mqpg.op_log where op = 'b'") == 3


def test_a_batch_with_a_half_that_was_rolled_back_is_not_committed(mq: Session) -> None:
    handles = [mq.prepare("one", str(i)) for i in range(3)]
    mq.rollback(handles[1])
    with refused("MQ018", "1 of 3"):
        mq.value("commit_once", "pg", handles, "query", 0)
    mq.append()
    assert mq.call("topic_offsets", "one")[0].next_offset == 0
    assert mq.scalar("select count(*) from mqpg.batch_writer") == 0


def test_a_batch_older_than_the_newest_is_no_repetition(mq: Session) -> None:
    """A checkpoint was restored, or a job of an earlier date runs: its messages may never have been committed."""
    assert mq.value("commit_once", "pg", [mq.prepare("one", "5")], "query", 5)
    older = mq.prepare("one", "3")
    with refused("MQ018", "writer 'query' has committed a later batch than 3"):
        mq.value("commit_once", "pg", [older], "query", 3)
    assert mq.scalar("select batch_no from mqpg.batch_writer") == 5
    assert mq.value("commit_once", "pg", [older], "other", 3), "nothing was decided"
    mq.append()
    assert read(mq, "one", 0, 2) == [(0, 5), (1, 3)]


def test_two_drivers_commit_one_of_two_batches(broker: Broker, mq: Session) -> None:
    mine, other = [mq.prepare("one", "1")], [mq.prepare("one", "2")]
    second = broker.session()
    with mq.transaction():
        assert mq.value("commit_once", "pg", mine, "query", 0)
        waiting = broker.blocked(second, second.value, "commit_once", "pg", other, "query", 0)
    assert waiting.result(30) is False
    mq.append()
    assert read(mq, "one", 0, 1) == [(0, 1)]


def test_a_broadcast_group_has_no_position_of_its_own(mq: Session) -> None:
    mq.call("subscribe", "b", "one", "broadcast")
    with refused("MQ001", "broadcast"):
        mq.call("topic_offsets", "one", None, "b")
