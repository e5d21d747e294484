"""What the driver's part of a source decides, without a JVM: options, ranges, offsets, positions."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

import mqpg
from mqpg.errors import (
    ConfigurationError,
    ConnectionFailed,
    Error,
    OffsetBeyondLog,
    OffsetOutOfRange,
    UnknownTopic,
    WrongState,
)
from mqpg.spark.pipeline.broker import Broker, Range
from mqpg.spark.pipeline.options import ReadOptions, WriteOptions
from mqpg.spark.pipeline.reader import BatchReader, StreamReader
from mqpg.spark.pipeline.writer import BatchWriter
from tests.support.broker import Session
from tests.support.company import value
from tests.support.lost_end import Standby
from tests.support.retention import retain, roll

SCHEMA = StructType([StructField("offset", LongType())])
GOOD = {"dsn": "dbname=x", "topic": "orders"}
Stream = Callable[..., StreamReader]


@pytest.fixture
def stream(mq: mqpg.Client, dsn: str) -> Stream:
    """A stream of topic `orders`, with further options."""

    def make(**options: str) -> StreamReader:
        given = {"dsn": dsn, "columns": "offset"} | ({} if "topics" in options else {"topic": "orders"}) | options
        return StreamReader(ReadOptions.of(given, stream=True), SCHEMA)

    return make


def batch(dsn: str, **options: str) -> BatchReader:
    given = {"dsn": dsn, "topic": "orders", "columns": "offset"} | options
    return BatchReader(ReadOptions.of(given, stream=False), SCHEMA)


def fill(mq: mqpg.Client, messages: int, topic: str = "orders") -> None:
    mq.send_batch(topic, [{"n": n} for n in range(messages)], keys=[str(n) for n in range(messages)])
    mq.append()


def ranges(parts: Any) -> list[tuple[int, int, int]]:
    return sorted((one.queue, one.first, one.after) for part in parts for one in part.value)


def messages(parts: Any) -> int:
    return sum(after - first for _, first, after in ranges(parts))


def nexts(offset: dict[str, Any], topic: str = "orders") -> list[int]:
    return list(offset[topic]["offsets"].values())


@pytest.fixture
def lag(db: psycopg.Connection[Any]) -> Callable[..., int]:
    """How many messages a group has not read."""

    def look(group: str = "lake") -> int:
        query = "select sum(lag)::int from mqpg.subscription_lag where consumer_group = %s"
        return value(db, query, group)

    return look


@pytest.mark.parametrize(
    ("options", "stream", "names"),
    [
        ({"dsn": "dbname=x"}, True, "topic"),
        (GOOD | {"topics": "a,b"}, True, "topic"),
        (GOOD | {"topic": " "}, True, "topic"),
        ({"topic": "orders", "dsn": "mysql://x/y"}, True, "dsn"),
        ({"topic": "orders", "dsn": "postgresql://x:secret@/@/"}, True, "dsn"),
        (GOOD | {"colums": "key"}, True, "colums"),
        (GOOD | {"columns": "key,id"}, True, "columns"),
        (GOOD | {"columns": "key,key"}, True, "columns"),
        (GOOD | {"columns": ""}, True, "columns"),
        (GOOD | {"minPartitions": "0"}, True, "minPartitions"),
        (GOOD | {"minPartitions": "many"}, True, "minPartitions"),
        (GOOD | {"maxOffsetsPerTrigger": "-1"}, True, "maxOffsetsPerTrigger"),
        (GOOD | {"maxOffsetsPerTrigger": "1"}, False, "maxOffsetsPerTrigger"),
        (GOOD | {"group": "g"}, False, "group"),
        (GOOD | {"endingOffsets": "latest"}, True, "endingOffsets"),
        (GOOD | {"failOnDataLoss": "no"}, True, "failOnDataLoss"),
        (GOOD | {"startingOffsets": "middle"}, True, "startingOffsets"),
        (GOOD | {"startingOffsets": "2026-01-31T12:00:00"}, True, "startingOffsets"),
        (GOOD | {"startingOffsets": '{"orders": 1}'}, True, "startingOffsets"),
        (GOOD | {"startingOffsets": '{"orders": {"0": -3}}'}, True, "startingOffsets"),
        (GOOD | {"startingOffsets": '{"orders": {"a": 3}}'}, True, "startingOffsets"),
        (GOOD | {"startingOffsets": '{"orders": {"0": true}}'}, True, "startingOffsets"),
        (GOOD | {"startingOffsets": '{"others": {"0": 1}}'}, True, "startingOffsets"),
        (GOOD | {"endingOffsets": "{"}, False, "endingOffsets"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], stream: bool, names: str) -> None:
    with pytest.raises(ConfigurationError, match=f"options? .*{names}") as caught:
        ReadOptions.of(options, stream=stream)
    assert "secret" not in str(caught.value)


def test_the_broker_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", "postgresql://one/shop")
    assert ReadOptions.of({"topic": "orders"}, stream=True).dsn == "postgresql://one/shop"
    assert ReadOptions.of({"topic": "orders", "service": "s"}, stream=True).dsn == "service=s"
    both = ReadOptions.of({"topic": "orders", "dsn": "host=h", "passfile": "/p"}, stream=True)
    assert both.dsn == "host=h passfile=/p"


@pytest.mark.parametrize(
    ("options", "stream", "names"),
    [
        (GOOD, True, "producerGroup"),
        (GOOD | {"producerGroup": "g", "batch": "1"}, False, "writer"),
        (GOOD | {"producerGroup": "g", "writer": "w", "batch": "x"}, False, "batch"),
        (GOOD | {"producerGroup": "g", "writer": "w", "batch": "1"}, True, "writer"),
        (GOOD | {"producerGroup": "g", "startingOffsets": "latest"}, False, "startingOffsets"),
    ],
)
def test_a_bad_option_of_a_sink_is_named(options: dict[str, str], stream: bool, names: str) -> None:
    with pytest.raises(ConfigurationError, match=f"options? .*{names}"):
        WriteOptions.of(options, stream=stream)


def test_columns_of_a_sink_are_checked() -> None:
    options = WriteOptions.of({"dsn": "dbname=x", "producerGroup": "g"}, stream=False)
    for schema, names in (
        ("payload string, k string", "'k'"), ("payload int, topic string", "'payload'"), ("payload string", "topic")
    ):  # fmt: skip
        fields = [StructField(*_typed(one)) for one in schema.split(", ")]
        with pytest.raises(ConfigurationError, match=names):
            BatchWriter(options, StructType(fields), overwrite=False)
    with pytest.raises(ConfigurationError, match="overwrite"):
        BatchWriter(options, SCHEMA, overwrite=True)


def test_a_batch_of_a_sink_that_is_left_out_is_told(
    mq: mqpg.Client, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = StructType([StructField("payload", StringType())])

    def write(number: str) -> None:
        given = {"dsn": dsn, "topic": "orders", "producerGroup": "spark", "writer": "nightly", "batch": number}
        writer = BatchWriter(WriteOptions.of(given, stream=False), schema, overwrite=False)
        writer.commit([writer.write(iter([pa.record_batch({"payload": ["1", "2"]})]))])

    write("20260131")
    assert not caplog.records
    write("20260131")
    assert "batch 20260131 of writer 'nightly' was committed before: its 2 messages are left out" in caplog.messages
    with pytest.raises(WrongState, match="a later batch than 20260130"):
        write("20260130")
    mq.append()
    assert sum(len(mq.fetch("orders", queue, 0, 10)) for queue in range(4)) == 2


def _typed(column: str) -> tuple[str, DataType]:
    name, kind = column.split()
    return name, StringType() if kind == "string" else IntegerType()


def test_a_batch_reads_from_where_to_where(mq: mqpg.Client, dsn: str) -> None:
    fill(mq, 100)
    between = datetime.now(UTC)
    tails = nexts(StreamReader(ReadOptions.of({"dsn": dsn, "topic": "orders"}, stream=True), SCHEMA).initialOffset())
    assert tails == [0, 0, 0, 0]
    fill(mq, 100)
    assert messages(batch(dsn).partitions()) == 200
    assert messages(batch(dsn, startingOffsets="latest").partitions()) == 0
    assert messages(batch(dsn, endingOffsets="earliest").partitions()) == 0
    assert messages(batch(dsn, startingOffsets=between.isoformat()).partitions()) == 100
    assert messages(batch(dsn, endingOffsets=between.isoformat()).partitions()) == 100
    first, after = '{"orders": {"0": 3, "1": -1, "3": -1}}', '{"orders": {"0": 7, "1": -1, "2": 5}}'
    named = batch(dsn, startingOffsets=first, endingOffsets=after)
    assert ranges(named.partitions()) == [(0, 3, 7), (2, 0, 5)]
    with pytest.raises(Error, match="has no queue 4"):
        batch(dsn, startingOffsets='{"orders": {"4": 1}}').partitions()


def test_partitions_are_of_one_size(mq: mqpg.Client, dsn: str) -> None:
    fill(mq, 1000)
    for least, sizes in (("1", [1000]), ("4", [250] * 4), ("3", [334, 334, 332]), ("2000", [1] * 1000)):
        parts = batch(dsn, minPartitions=least).partitions()
        assert [messages([part]) for part in parts] == sizes
    assert len(batch(dsn).partitions()) == 1


def test_a_micro_batch_has_at_most_so_many_of_each_queue_some(mq: mqpg.Client, stream: Stream) -> None:
    reader = stream(maxOffsetsPerTrigger="100")
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start, "nothing is there"
    fill(mq, 1000)
    taken = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        taken.append(messages(reader.partitions(start, end)))
        assert all(after > first for first, after in zip(nexts(start), nexts(end), strict=True))
        start = end
    assert taken == [100] * 10
    assert sum(nexts(reader.latestOffset(stream().initialOffset(), ReadAllAvailable()))) == 1000


def test_available_now_ends_where_it_was_when_it_began(mq: mqpg.Client, stream: Stream) -> None:
    fill(mq, 10)
    reader = stream()
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    fill(mq, 10)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert sum(nexts(end)) == 10
    assert reader.latestOffset(end, ReadMaxRows(5)) == end


def test_queues_that_are_added_are_read_from_their_first_message(mq: mqpg.Client, stream: Stream) -> None:
    reader = stream()
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    mq.alter_topic("orders", queues=8)
    fill(mq, 100)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert (len(nexts(end)), messages(reader.partitions(start, end))) == (8, 100)


def test_a_topic_that_is_created_again_is_an_error(mq: mqpg.Client, stream: Stream) -> None:
    fill(mq, 10)
    reader = stream(failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    parts = reader.partitions(start, end)
    mq.drop_topic("orders", force=True)
    mq.create_topic("orders", queues=4)
    fill(mq, 10)
    with pytest.raises(Error, match="dropped and created again"):
        reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(UnknownTopic, match="dropped and created again"):
        list(reader.read(parts[0]))


def test_a_checkpoint_beyond_the_topic_is_an_error(mq: mqpg.Client, stream: Stream) -> None:
    """No retention explains it, and the next messages at these offsets would never be read."""
    fill(mq, 10)
    for fails in ("true", "false"):
        reader = stream(failOnDataLoss=fails)
        start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        start["orders"]["offsets"]["0"] += 1
        with pytest.raises(Error, match="restored to an earlier state"):
            reader.latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize("group", [{}, {"group": "lake"}], ids=["alone", "group"])
def test_offsets_that_were_given_again_are_an_error(
    mq: mqpg.Client, dsn: str, stream: Stream, lag: Callable[..., int], group: dict[str, str]
) -> None:
    """The broker lost the end of its queues, and has given the same offsets to other messages."""
    fill(mq, 40)
    reader = stream(**group)
    begin = reader.initialOffset()
    survives = reader.latestOffset(begin, ReadAllAvailable())
    standby = Standby(dsn)
    fill(mq, 40)
    lost = reader.latestOffset(survives, ReadAllAvailable())
    parts = reader.partitions(survives, lost)
    standby.promote(
        *(message.message_id for queue in range(4) for message in mq.fetch("orders", queue, nexts(survives)[queue], 40))
    )
    fill(mq, 80)
    for call in (
        lambda: reader.latestOffset(lost, ReadAllAvailable()),
        lambda: reader.partitions(survives, lost),
        lambda: list(reader.read(parts[0])),
        *([lambda: reader.commit(lost)] if group else []),
    ):
        with pytest.raises(OffsetBeyondLog):
            call()
    assert not group or lag() == 120, "the group stays where the broker has it"
    end = reader.latestOffset(survives, ReadAllAvailable())
    assert messages(reader.partitions(survives, end)) == 80
    fill(mq, 10)
    assert messages(reader.partitions(end, reader.latestOffset(end, ReadAllAvailable()))) == 10


def test_a_checkpoint_of_a_later_life_is_an_error(mq: mqpg.Client, dsn: str, stream: Stream) -> None:
    """The broker was restored from before its last promotion."""
    fill(mq, 40)
    reader = stream()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    del end["orders"]["incarnation"]  # as an earlier release wrote it
    end = reader.latestOffset(end, ReadAllAvailable())
    end["orders"]["incarnation"] += 1
    with pytest.raises(OffsetBeyondLog, match="restored"):
        reader.latestOffset(end, ReadAllAvailable())


def test_the_first_batch_begins_where_it_began(mq: mqpg.Client, stream: Stream) -> None:
    """Spark writes where the first batch ends before it is done, and asks again where it began."""
    fill(mq, 40)
    reader = stream(startingOffsets="latest")
    begin = reader.initialOffset()
    fill(mq, 30)
    end = reader.latestOffset(begin, ReadAllAvailable())
    fill(mq, 20)
    again = stream(startingOffsets="latest")
    start = again.initialOffset()
    assert messages(again.partitions(start, end)) == 30
    more = again.latestOffset(end, ReadAllAvailable())
    assert messages(again.partitions(end, more)) == 20
    assert again.latestOffset(more, ReadAllAvailable()) == more


def test_a_group_beyond_what_retention_took_is_no_error(
    mq: mqpg.Client, stream: Stream, db: psycopg.Connection[Any], lag: Callable[..., int]
) -> None:
    """The checkpoint is an old one of the group, and nothing is left between the two."""
    session = Session(db)
    reader = stream(group="lake", failOnDataLoss="false")
    start = reader.initialOffset()
    mq.send_batch("orders", [1] * 40, keys=["one"] * 40)  # one queue
    mq.append()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.commit(end)
    retain(session, "0 s")
    roll(session)
    fill(mq, 40)
    after = reader.latestOffset(start, ReadAllAvailable())
    assert messages(reader.partitions(start, after)) == 40
    assert lag() == 40
    reader.commit(after)
    assert lag() == 0
    with pytest.raises(OffsetOutOfRange, match="the position is beyond it"):
        reader.commit(end)


def test_other_topics_than_those_of_the_checkpoint_are_an_error(mq: mqpg.Client, stream: Stream) -> None:
    mq.create_topic("bills", queues=1)
    start = stream().initialOffset()
    with pytest.raises(Error, match="checkpoint is of the topics orders"):
        stream(topics="orders,bills").latestOffset(start, ReadAllAvailable())
    both = stream(topics="bills, orders")
    fill(mq, 7, "bills")
    assert nexts(both.latestOffset(both.initialOffset(), ReadAllAvailable()), "bills") == [7]


@pytest.mark.parametrize("fails", [True, False])
def test_what_retention_took_is_an_error_or_left_out(
    mq: mqpg.Client, stream: Stream, db: psycopg.Connection[Any], fails: bool
) -> None:
    session = Session(db)
    fill(mq, 40)
    reader = stream(failOnDataLoss=str(fails))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    parts = reader.partitions(start, end)
    retain(session, "0 s")
    roll(session)
    fill(mq, 40)
    after = reader.latestOffset(end, ReadAllAvailable())
    if fails:
        with pytest.raises(Error, match="dropped before they were read"):
            reader.partitions(start, after)
        with pytest.raises(OffsetOutOfRange):
            list(reader.read(parts[0]))
    else:
        assert messages(reader.partitions(start, after)) == 40
        assert list(reader.read(parts[0])) == []


def test_a_task_whose_whole_range_retention_took_reads_nothing(
    mq: mqpg.Client, stream: Stream, dsn: str, db: psycopg.Connection[Any]
) -> None:
    """Retention went beyond the end of the micro-batch."""
    session = Session(db)
    fill(mq, 40)
    reader = stream(failOnDataLoss="false")
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ReadMaxRows(20)))
    assert messages(parts) == 20
    retain(session, "0 s")
    roll(session)
    with Broker(dsn) as broker:
        assert sum(broker.offsets("orders").oldest.values()) == 40
    assert [table for part in parts for table in reader.read(part)] == []


def test_a_broker_that_ends_while_it_is_read_is_an_error(
    mq: mqpg.Client, dsn: str, db: psycopg.Connection[Any]
) -> None:
    """A range of 30 MB, which no buffer on the way holds."""
    mq.send_batch("orders", [{"n": "x" * 60_000}] * 500, keys=["one"] * 500)
    mq.append()
    with Broker(dsn) as broker:
        found = broker.offsets("orders")
        queue = max(found.next, key=lambda one: found.next[one])
        tables = broker.read(Range("orders", found.identity, queue, 0, 500), ("offset", "payload"))
        assert 0 < len(next(tables)) < 500
        db.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'mqpg spark'")
        with pytest.raises(ConnectionFailed):
            list(tables)


def test_a_group_follows_the_checkpoint(mq: mqpg.Client, stream: Stream, lag: Callable[..., int]) -> None:
    fill(mq, 100)
    reader = stream(group="lake", maxOffsetsPerTrigger="60")
    start = reader.initialOffset()
    assert lag() == 100
    end = reader.latestOffset(start, ReadMaxRows(60))
    assert lag() == 100, "nothing is committed yet"
    reader.commit(end)
    assert lag() == 40
    last = reader.latestOffset(end, ReadMaxRows(60))
    assert reader.latestOffset(last, ReadMaxRows(60)) == last, "and this says that it is committed"
    assert lag() == 0
    fill(mq, 5)
    again = stream(group="lake", startingOffsets="earliest")
    assert again.initialOffset() == last, "a new checkpoint begins at the group's position"


def test_a_group_may_begin_later(mq: mqpg.Client, stream: Stream, lag: Callable[..., int]) -> None:
    fill(mq, 100)
    stream(group="late", startingOffsets="latest").initialOffset()
    assert lag("late") == 0
    begun = stream(group="some", startingOffsets='{"orders": {"0": 3, "1": -1}}').initialOffset()
    assert nexts(begun)[0] == 3
    assert stream(group="some").initialOffset() == begun


def test_a_checkpoint_and_a_group_that_disagree_are_told(mq: mqpg.Client, stream: Stream) -> None:
    fill(mq, 100)
    reader = stream(group="lake")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.commit(end)
    with pytest.raises(OffsetOutOfRange, match=r"consumer group 'lake' is at offset .* the position is beyond it"):
        reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(OffsetOutOfRange, match="the position is beyond it"):
        stream(group="lake", failOnDataLoss="false").commit(start)
    mq.seek("lake", "orders", "earliest")
    fill(mq, 1)
    more = stream().latestOffset(end, ReadAllAvailable())
    with pytest.raises(OffsetOutOfRange, match="moved back since"):
        reader.commit(more)
