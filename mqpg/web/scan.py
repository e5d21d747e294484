"""A bounded look at the messages of a topic: so many, for so long, and what was looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from mqpg.status.finding import Row
from mqpg.values.errors import MissingBody, OffsetOutOfRange, SerializationFailure

from .visit import Visit

__all__ = ["MOST_FOUND", "MOST_LOOKED_AT", "MOST_QUEUES", "Look", "Wanted", "look"]

MOST_FOUND = 100
MOST_LOOKED_AT = 10_000
MOST_QUEUES = 64
_MOST_SECONDS = 5.0
_LEAST_PART, _LARGEST_PART = 10, 1000  # messages of one query
_QUICK, _SLOW = 0.2, 1.0  # seconds of a query, after which the next one reads more or less
_DEPTH = """
select q.queue_id, q.oldest_offset, q.next_offset from mqpg._queue_depth(%(topic)s) as q
where q.next_offset > q.oldest_offset and (%(queue)s::int is null or q.queue_id = %(queue)s)
order by q.queue_id limit %(limit)s
"""
# The first and the last time are those of all messages that were read.
_PART = """
with part as materialized (
    select f.* from mqpg.fetch(%(topic)s, %(queue)s, %(low)s, %(count)s) as f
)
select a.first, a.last, h.* from (select min(p.born_at) as first, max(p.born_at) as last from part as p) as a
left join (
    select p.message_id, p.queue_id, p.queue_offset, 'appended' as state, p.born_at,
        left(p.payload::text, 300) as payload
    from part as p
    where (%(since)s::timestamptz is null or p.born_at >= %(since)s)
        and (%(until)s::timestamptz is null or p.born_at < %(until)s)
        and (%(key)s::text is null or p.key = %(key)s)
        and (%(path)s::jsonpath is null or mqpg._path_matches(p.payload, %(path)s::jsonpath,
            jsonb_build_object('headers', p.headers, 'key', p.key, 'tag', p.tag)))
    order by p.queue_offset * %(direction)s limit %(limit)s
) as h on true
order by h.queue_offset * %(direction)s
"""


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    Attributes:
        topic: The topic's name.
        queue: Only this queue. None: all, up to 64.
        key: Only messages with this key. None: any.
        path: A jsonpath condition that payloads fulfil. None: any payload.
        since: Only messages sent then or later, the oldest first. None: the newest first.
        until: Only messages sent before. None: up to now.
        rest: Where an earlier look ended in each queue. None: this is the first one.
    """

    topic: str
    queue: int | None = None
    key: str | None = None
    path: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    rest: dict[int, int] | None = None

    @property
    def forward(self) -> bool:
        """Whether the oldest messages are looked at first."""
        return self.since is not None


@dataclass
class Look:
    """What was found, and what was looked at.

    Attributes:
        forward: Whether the oldest messages were looked at first.
        found: The messages.
        looked_at: How many messages were read.
        left: How many in the range of time were not read yet.
        first: When the oldest of those that were read was sent. None: there was none.
        last: When the newest of them was sent.
        queues: How many queues have messages in the range.
        rest: Where the next look begins in each queue.
        problems: Queues that could not be read, and why.
    """

    forward: bool
    found: list[Row] = field(default_factory=list)
    looked_at: int = 0
    left: int = 0
    first: datetime | None = None
    last: datetime | None = None
    queues: int = 0
    rest: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass
class _Lane:
    """The offsets of a queue that are still to be read: from low to high - 1."""

    queue_id: int
    low: int
    high: int

    def part(self, count: int, forward: bool) -> tuple[int, int]:
        """The next offsets to read: the first, and how many."""
        count = min(count, self.high - self.low)
        return (self.low if forward else self.high - count), count

    def pass_by(self, start: int, count: int, forward: bool) -> None:
        """Note that they were read."""
        if forward:
            self.low = start + count
        else:
            self.high = start


def look(visit: Visit, wanted: Wanted) -> Look:
    """Read messages of a topic in turn from its queues, until enough are found or read.

    It reads at most 10,000 messages and for about five seconds. Offsets follow the commits, so near
    the ends of a range of time a message whose transaction took long may be missing.

    Args:
        visit: The request.
        wanted: What is looked for.

    Returns:
        What was found.

    Raises:
        UnknownTopic: There is no such topic.
        Error: The broker refused to read, or does not answer.
    """
    visit.mq.queries.queue_count(wanted.topic)  # the topic exists
    lanes = list(_lanes(visit, wanted))
    seen = Look(wanted.forward, queues=len(lanes))
    ends = time.monotonic() + _MOST_SECONDS
    count = max(_LEAST_PART, min(100, MOST_LOOKED_AT // max(1, len(lanes))))
    while open_lanes := [lane for lane in lanes if lane.low < lane.high]:
        for lane in open_lanes:
            if seen.looked_at >= MOST_LOOKED_AT or len(seen.found) >= MOST_FOUND or time.monotonic() > ends:
                return _ended(seen, lanes)
            began = time.monotonic()
            _read(visit, wanted, lane, min(count, MOST_LOOKED_AT - seen.looked_at), seen)
            took = time.monotonic() - began
            count = min(count * 2, _LARGEST_PART) if took < _QUICK else count
            count = max(count // 2, _LEAST_PART) if took > _SLOW else count
    return _ended(seen, lanes)


def _ended(seen: Look, lanes: list[_Lane]) -> Look:
    for lane in lanes:
        if lane.low < lane.high:
            seen.left += lane.high - lane.low
            seen.rest[lane.queue_id] = lane.low if seen.forward else lane.high
    seen.found.sort(key=lambda one: (one["born_at"], one["message_id"]), reverse=not seen.forward)
    return seen


def _lanes(visit: Visit, wanted: Wanted) -> Iterator[_Lane]:
    """The queues, with the offsets of the range of time that no earlier look has read."""
    for queue in visit.rows(_DEPTH, topic=wanted.topic, queue=wanted.queue, limit=MOST_QUEUES):
        number, low, high = queue["queue_id"], queue["oldest_offset"], queue["next_offset"]
        if wanted.rest is not None and number not in wanted.rest:
            continue
        if wanted.since is not None:
            low = _first_from(visit, wanted.topic, number, (low, high), wanted.since)
        if wanted.until is not None:
            high = _first_from(visit, wanted.topic, number, (low, high), wanted.until)
        if wanted.rest is not None and wanted.forward:
            low = max(low, wanted.rest[number])
        elif wanted.rest is not None:
            high = min(high, wanted.rest[number])
        if low < high:
            yield _Lane(number, low, high)


def _first_from(visit: Visit, topic: str, queue: int, offsets: tuple[int, int], at: datetime) -> int:
    """The first offset that was sent at that time or later: about twenty reads of one message."""
    low, high = offsets
    try:
        while low < high:
            middle = (low + high) // 2
            (one,) = visit.mq.fetch(topic, queue, middle, 1)
            low, high = (middle + 1, high) if one.born_at < at else (low, middle)
    except (OffsetOutOfRange, MissingBody):  # its segment was dropped meanwhile
        pass
    return low


def _read(visit: Visit, wanted: Wanted, lane: _Lane, count: int, seen: Look) -> None:
    """Read a part of a queue. One that cannot be read is left out, and the page says why."""
    start, count = lane.part(count, wanted.forward)
    limit = MOST_FOUND - len(seen.found)
    try:
        rows = visit.rows(
            _PART,
            topic=wanted.topic,
            queue=lane.queue_id,
            low=start,
            count=count,
            since=wanted.since,
            until=wanted.until,
            key=wanted.key,
            path=wanted.path,
            direction=1 if wanted.forward else -1,
            limit=limit,
        )
    except (OffsetOutOfRange, MissingBody, SerializationFailure) as error:
        seen.problems.append(f"queue {lane.queue_id}: {error}")
        lane.low = lane.high
        return
    hits = [row for row in rows if row["message_id"] is not None]
    if len(hits) == limit:  # the others behind the last hit are for the next look
        last: int = hits[-1]["queue_offset"]
        start, count = (start, last + 1 - start) if wanted.forward else (last, start + count - last)
    lane.pass_by(start, count, wanted.forward)
    seen.found += hits
    seen.looked_at += count
    times = [row[name] for row in rows[:1] for name in ("first", "last")] + [seen.first, seen.last]
    known = [at for at in times if at is not None]
    seen.first, seen.last = min(known, default=None), max(known, default=None)
