"""The source: topics as a batch or a stream.

The offsets of a queue are dense, in the order of commits, and do not change within an incarnation of
the broker. So a range has the same messages whenever, and over however many connections, it is read.
"""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqpg.values.errors import Error, OffsetBeyondLog, OffsetOutOfRange, UnknownSubscription

from .broker import Broker, Range, TopicOffsets
from .options import ReadOptions, Start
from .payloads import parse_payloads

__all__ = ["BatchReader", "StreamReader"]

_log = logging.getLogger(__name__)

_PART = 200_000  # messages of a partition
_CALL = 1_000_000  # what one call reads at most

# Of a stream: for each topic its identity, the broker's incarnation, and the offset of the next message of
# each queue. The end of the first batch also says where that began, because Spark does not store it.
Offsets = dict[str, Any]


class Part(ds.InputPartition):
    """Ranges that one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(tuple(ranges))


class Reading:
    """What a batch and a stream share."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in a task. Without partitions Spark makes one with the value None."""
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        with Broker(self.options.dsn) as broker:
            for part in partition.value or ():
                for table in self._tables(broker, part):
                    if self.options.payload and "payload" in wanted.names:
                        place = wanted.get_field_index("payload")
                        parsed = parse_payloads(table["payload"], wanted.field(place).type)
                        table = table.set_column(place, "payload", parsed)
                    yield from table.cast(wanted).to_batches()
            if not {part.incarnation for part in partition.value or ()} <= {None, broker.incarnation()}:
                raise OffsetBeyondLog("the broker was promoted or restored after the driver had looked: run it again")
        _keep_modules()

    def _tables(self, broker: Broker, part: Range) -> Iterator[pa.Table]:
        while part.first < part.after:
            try:
                yield from broker.read(part, self.options.columns)
                return
            except OffsetOutOfRange:
                # Retention took messages after the driver had looked. Nothing of the range was read.
                if self.options.fail_on_loss:
                    raise
                rest = self._kept(part, broker.offsets(part.topic))
                if rest == part:
                    raise  # it has all of them, so the range ends beyond the queue
                part = rest

    def _kept(self, part: Range, found: TopicOffsets) -> Range:
        """What there still is of a range. Raises if messages are lost and that is an error."""
        oldest = found.oldest[part.queue]
        if part.first >= oldest:
            return part
        lost = (
            f"the messages at offsets {part.first} to {min(oldest, part.after) - 1} of queue {part.queue} of topic "
            f"{part.topic!r} were dropped before they were read"
        )
        if self.options.fail_on_loss:
            raise Error(f"{lost}: option failOnDataLoss=false reads on without them; a group keeps them")
        _log.warning("%s", lost)
        return replace(part, first=min(oldest, part.after))

    def _places(self, broker: Broker, topic: str, where: Start) -> tuple[TopicOffsets, dict[int, int]]:
        """The offsets of a topic, and for each queue the one that an option means."""
        found = broker.offsets(topic, where if isinstance(where, datetime) else None)
        if isinstance(where, datetime):
            return found, found.at
        if isinstance(where, str):
            return found, found.oldest if where == "earliest" else found.next
        named = where.get(topic, {})
        if unknown := named.keys() - found.next.keys():
            raise Error(f"startingOffsets or endingOffsets: topic {topic!r} has no queue {min(unknown)}")
        return found, {
            queue: {-2: found.oldest[queue], -1: after}.get(offset := named.get(queue, -2), offset)
            for queue, after in found.next.items()
        }

    def _parts(self, ranges: Iterable[Range]) -> list[Part]:
        """Cut ranges, and put small ones together, so that tasks read about as much."""
        ranges = [one for one in ranges if one.first < one.after]
        total = sum(one.after - one.first for one in ranges)
        size = max(1, -(-total // self.options.partitions)) if self.options.partitions else _PART
        size = min(size, _CALL)
        parts: list[list[Range]] = []
        room = 0
        for one in ranges:
            first = one.first
            while first < one.after:
                if room == 0:
                    parts.append([])
                    room = size
                after = min(one.after, first + room)
                parts[-1].append(replace(one, first=first, after=after))
                room -= after - first
                first = after
        return [Part(part) for part in parts]


class BatchReader(Reading, ds.DataSourceReader):
    """A topic as it is now.

    It has no pushFilters(): Spark 4.3 keeps the ranges that a filter has narrowed for every later use of the same
    DataFrame, whose rows would then be missing without an error.
    """

    def partitions(self) -> Sequence[ds.InputPartition]:
        """Cut the topics into ranges, in the driver."""
        ranges = []
        with Broker(self.options.dsn) as broker:
            for topic in self.options.topics:
                found, first = self._places(broker, topic, self.options.start)
                _, after = self._places(broker, topic, self.options.end)
                for queue in found.next:
                    part = Range(
                        topic,
                        found.identity,
                        queue,
                        first[queue],
                        min(after[queue], found.next[queue]),
                        found.incarnation,
                    )
                    if part.first < part.after:
                        ranges.append(self._kept(part, found))
        return self._parts(ranges)


class StreamReader(Reading, ds.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A topic as a stream, whose position is in the checkpoint, and with a group in the broker, too."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: dict[str, dict[int, int]] | None = None  # of the trigger availableNow
        self._began: dict[str, Offsets] = {}

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins: at the group's position, or by startingOffsets."""
        with Broker(self.options.dsn) as broker:
            self._began = {topic: self._initial(broker, topic) for topic in self.options.topics}
        return self._began

    def _initial(self, broker: Broker, topic: str) -> Offsets:
        if self.options.group is None:
            found, first = self._places(broker, topic, self.options.start)
            return _offsets(found, first)
        try:
            found = broker.offsets(topic, group=self.options.group)
        except UnknownSubscription:
            self._subscribe(broker, topic, self.options.group)
            found = broker.offsets(topic, group=self.options.group)
        return _offsets(found, found.committed)

    def _subscribe(self, broker: Broker, topic: str, group: str) -> None:
        _, first = self._places(broker, topic, self.options.start)
        with broker.transaction():
            broker.call("select mqpg.subscribe(%s, %s)", group, topic)
            for queue, offset in first.items():
                broker.call("select mqpg.seek(%s, %s, %s, %s)", group, topic, str(offset), queue)

    def getDefaultReadLimit(self) -> ReadLimit:
        """See DataSourceStreamReader."""
        return ReadMaxRows(self.options.most) if self.options.most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """See SupportsTriggerAvailableNow."""
        with Broker(self.options.dsn) as broker:
            self._target = {topic: broker.offsets(topic).next for topic in self.options.topics}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends. Spark has committed all before `start`."""
        if start.keys() != set(self.options.topics):
            raise Error(
                f"the checkpoint is of the topics {', '.join(start)}, and option topic or topics names "
                f"{', '.join(self.options.topics)}: begin with a new checkpoint"
            )
        known, ends, ahead = {}, {}, {}
        with Broker(self.options.dsn) as broker:
            for topic, before in start.items():
                known[topic] = found = self._follow(broker, topic, before)
                ends[topic] = {int(queue): offset for queue, offset in before["offsets"].items()}
                for queue, after in (self._target or {}).get(topic, found.next).items():
                    ahead[topic, queue] = max(0, after - ends[topic].setdefault(queue, 0))
        taken = _limited(ahead, limit.max_rows) if isinstance(limit, ReadMaxRows) else ahead
        for (topic, queue), messages in taken.items():
            ends[topic][queue] += messages
        return {
            topic: self._moved(topic, before, _offsets(known[topic], ends[topic])) for topic, before in start.items()
        }

    def _moved(self, topic: str, before: Offsets, after: Offsets) -> Offsets:
        if after.items() <= before.items():
            return before  # and Spark makes no batch of it
        return after | ({"start": before["offsets"]} if before == self._began.get(topic) else {})

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What there is, for the progress of the query."""
        with Broker(self.options.dsn) as broker:
            found = {topic: broker.offsets(topic) for topic in self.options.topics}
        return {topic: _offsets(one, one.next) for topic, one in found.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ds.InputPartition]:
        """Cut a micro-batch into ranges, in the driver."""
        ranges = []
        with Broker(self.options.dsn) as broker:
            for topic, upto in end.items():
                if upto == start[topic]:
                    continue
                found = _still_there(broker, topic, upto)
                begin = upto.get("start", start[topic]["offsets"])
                for queue, after in upto["offsets"].items():
                    part = Range(topic, found.identity, int(queue), begin.get(queue, 0), after, found.incarnation)
                    if part.first < part.after:
                        ranges.append(self._kept(part, found))
        return self._parts(ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Let the group's position follow what the checkpoint has committed."""
        if self.options.group is not None:
            with Broker(self.options.dsn) as broker:
                for topic, upto in end.items():
                    self._follow(broker, topic, upto)

    def _follow(self, broker: Broker, topic: str, upto: Offsets) -> TopicOffsets:
        """The offsets of a topic, after the group's position has followed those of a checkpoint."""
        found = _still_there(broker, topic, upto)
        if self.options.group is None:
            return found
        offsets = {int(queue): offset for queue, offset in upto["offsets"].items()}
        try:
            broker.advance(self.options.group, topic, upto["identity"], offsets)
        except OffsetOutOfRange as error:
            # Retention explains it only for queues that it emptied to beyond the checkpoint.
            oldest = broker.offsets(topic).oldest
            kept = {queue: offset for queue, offset in offsets.items() if offset >= oldest[queue]}
            if self.options.fail_on_loss or kept == offsets:
                raise
            _log.warning("%s", error)
            broker.advance(self.options.group, topic, upto["identity"], kept)
        return found


@functools.cache
def _keep_modules() -> None:
    """Spare the modules of this Python the garbage collection with which Spark ends each task: some 60 ms."""
    gc.freeze()


def _still_there(broker: Broker, topic: str, known: Offsets) -> TopicOffsets:
    """The offsets of a topic, if those of a checkpoint still have the messages that they had."""
    found = broker.offsets(topic, since=known.get("incarnation"))
    if found.identity != known["identity"]:
        raise Error(
            f"topic {topic!r} is not the one of the checkpoint: it was dropped and created again, or this is "
            "another broker; begin with a new checkpoint"
        )
    for queue, offset in known["offsets"].items():
        surviving = found.surviving[int(queue)]
        end = found.next[int(queue)] if surviving is None else surviving
        if offset > end or known.get("incarnation", 0) > found.incarnation:
            raise OffsetBeyondLog(
                f"the checkpoint is at offset {offset} of queue {queue} of topic {topic!r}, whose messages are those "
                f"of the checkpoint up to offset {end}: the broker was restored to an earlier state, or a standby "
                "without its newest messages was promoted; begin with a new checkpoint"
            )
    return found


def _offsets(found: TopicOffsets, offsets: Mapping[int, int]) -> Offsets:
    # Spark compares offsets as texts, so the queues always come in the same order.
    named = {str(queue): offsets[queue] for queue in sorted(offsets)}
    return {"identity": found.identity, "incarnation": found.incarnation, "offsets": named}


def _limited(ahead: dict[tuple[str, int], int], most: int) -> dict[tuple[str, int], int]:
    """Take `most` messages, from each queue in proportion to what it has."""
    total = sum(ahead.values())
    if total <= most:
        return ahead
    taken = {place: n * most // total for place, n in ahead.items()}
    left = most - sum(taken.values())
    for place, n in ahead.items():
        more = min(left, n - taken[place])
        taken[place] += more
        left -= more
    return taken
