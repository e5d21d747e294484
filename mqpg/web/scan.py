"""A bounded look at the messages of a topic: so many, for so long, and what was looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from mqpg.status.finding import Row
from mqpg.values.errors import MissingBody, OffsetOutOfRange, SerializationFailure

from .request import PageRequest

__all__ = ["MOST_FOUND", "MOST_LOOKED_AT", "MOST_QUEUES", "Scan", "SearchQuery", "scan"]

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
class SearchQuery:
    """What is looked for."""

    topic: str
    queue: int | None = None  # Only this queue. None: all, up to 64.
    key: str | None = None
    path: str | None = None  # a jsonpath condition that payloads fulfil
    since: datetime | None = None  # Only messages sent then or later, the oldest first. None: the newest first.
    until: datetime | None = None  # only messages sent before
    rest: dict[int, int] | None = None  # Where an earlier scan ended in each queue. None: this is the first one.

    @property
    def forward(self) -> bool:
        """Whether the oldest messages are looked at first."""
        return self.since is not None


@dataclass
class Scan:
    """What was found, and what was looked at."""

    forward: bool  # whether the oldest messages were looked at first
    found: list[Row] = field(default_factory=list)
    looked_at: int = 0  # how many messages were read
    left: int = 0  # how many in the range of time were not read yet
    first: datetime | None = None  # when the oldest of those that were read was sent; `last`: the newest
    last: datetime | None = None
    queues: int = 0  # how many queues have messages in the range
    rest: dict[int, int] = field(default_factory=dict)  # where the next scan begins in each queue
    problems: list[str] = field(default_factory=list)  # queues that could not be read, and why


@dataclass
class _Queue:
    """The offsets of a queue that are still to be read: from low to high - 1."""

    number: int
    low: int
    high: int


def scan(request: PageRequest, query: SearchQuery) -> Scan:
    """Read messages of a topic in turn from its queues, until enough are found or read.

    It reads at most 10,000 messages and for about five seconds. Offsets follow the commits, so near
    the ends of a range of time a message whose transaction took long may be missing.
    """
    request.mq.queries.queue_count(query.topic)  # the topic exists
    queues = list(_queues(request, query))
    scanned = Scan(query.forward, queues=len(queues))
    ends = time.monotonic() + _MOST_SECONDS
    count = max(_LEAST_PART, min(100, MOST_LOOKED_AT // max(1, len(queues))))
    while unread := [queue for queue in queues if queue.low < queue.high]:
        for queue in unread:
            if scanned.looked_at >= MOST_LOOKED_AT or len(scanned.found) >= MOST_FOUND or time.monotonic() > ends:
                return _ended(scanned, queues)
            began = time.monotonic()
            _read(request, query, queue, min(count, MOST_LOOKED_AT - scanned.looked_at), scanned)
            took = time.monotonic() - began
            count = min(count * 2, _LARGEST_PART) if took < _QUICK else count
            count = max(count // 2, _LEAST_PART) if took > _SLOW else count
    return _ended(scanned, queues)


def _ended(scanned: Scan, queues: list[_Queue]) -> Scan:
    for queue in queues:
        if queue.low < queue.high:
            scanned.left += queue.high - queue.low
            scanned.rest[queue.number] = queue.low if scanned.forward else queue.high
    scanned.found.sort(key=lambda one: (one["born_at"], one["message_id"]), reverse=not scanned.forward)
    return scanned


def _queues(request: PageRequest, query: SearchQuery) -> Iterator[_Queue]:
    """The queues, with the offsets of the range of time that no earlier scan has read."""
    for queue in request.rows(_DEPTH, topic=query.topic, queue=query.queue, limit=MOST_QUEUES):
        number, low, high = queue["queue_id"], queue["oldest_offset"], queue["next_offset"]
        if query.rest is not None and number not in query.rest:
            continue
        if query.since is not None:
            low = _first_from(request, query.topic, number, (low, high), query.since)
        if query.until is not None:
            high = _first_from(request, query.topic, number, (low, high), query.until)
        if query.rest is not None and query.forward:
            low = max(low, query.rest[number])
        elif query.rest is not None:
            high = min(high, query.rest[number])
        if low < high:
            yield _Queue(number, low, high)


def _first_from(request: PageRequest, topic: str, queue: int, offsets: tuple[int, int], at: datetime) -> int:
    """The first offset that was sent at that time or later: about twenty reads of one message."""
    low, high = offsets
    try:
        while low < high:
            middle = (low + high) // 2
            (one,) = request.mq.fetch(topic, queue, middle, 1)
            low, high = (middle + 1, high) if one.born_at < at else (low, middle)
    except (OffsetOutOfRange, MissingBody):  # its segment was dropped meanwhile
        pass
    return low


def _read(request: PageRequest, query: SearchQuery, queue: _Queue, count: int, scanned: Scan) -> None:
    """Read a part of a queue. One that cannot be read is left out, and the page says why."""
    count = min(count, queue.high - queue.low)
    start = queue.low if query.forward else queue.high - count
    limit = MOST_FOUND - len(scanned.found)
    values = {name: getattr(query, name) for name in ("topic", "since", "until", "key", "path")}
    values |= {"queue": queue.number, "low": start, "count": count, "limit": limit}
    try:
        rows = request.rows(_PART, **values, direction=1 if query.forward else -1)
    except (OffsetOutOfRange, MissingBody, SerializationFailure) as error:
        scanned.problems.append(f"queue {queue.number}: {error}")
        queue.low = queue.high
        return
    hits = [row for row in rows if row["message_id"] is not None]
    if len(hits) == limit:  # the others behind the last hit are for the next scan
        last: int = hits[-1]["queue_offset"]
        start, count = (start, last + 1 - start) if query.forward else (last, start + count - last)
    queue.low, queue.high = (start + count, queue.high) if query.forward else (queue.low, start)
    scanned.found += hits
    scanned.looked_at += count
    times = [row[name] for row in rows[:1] for name in ("first", "last")] + [scanned.first, scanned.last]
    known = [at for at in times if at is not None]
    scanned.first, scanned.last = min(known, default=None), max(known, default=None)
