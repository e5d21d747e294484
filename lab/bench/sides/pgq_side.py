"""PgQ (Debian's package `postgresql-15-pgq3`), whose `insert_event` is written in C.

A consumer of PgQ gets whole batches: what was inserted between two ticks. A queue has one reader
for each registered consumer. As a consequence, each pair of clients has a queue of its own, with
one consumer, and batches are as large as ticks make them. The ticker is `pgq.ticker()` in a loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle

from ..cells import Cell, Kind
from ..link import Link, bigint, int8
from ..payload import TEXT_OID, array
from .base import Consumer, Decider, Producer, Seen, Unavailable, bodies, chunks, numbers

__all__ = ["PgqSide"]

_LANES = 2
_TICK_PAUSE = 0.01  # seconds between two calls of the ticker. pgqd waits for a second by default
_POLL = 0.005  # seconds between two looks for a batch, in a latency cell

_ONE_SEND = "select pgq.insert_event('bench0', 'bench', {body}::text);\n"
_SEND_MANY = "select count(pgq.insert_event('bench{lane}', 'bench', body)) from unnest($1::text[]) as body"
_EVENTS = """select coalesce(sum((xpath('/row/n/text()', query_to_xml(
    'select count(*) as n from ' || queue_data_pfx, false, true, '')))[1]::text::bigint), 0) from pgq.queue"""

_ID, _DATA = 0, 5  # columns of get_batch_events


class PgqSide:
    """PgQ: insert_event, next_batch, get_batch_events, finish_batch."""

    name = "pgq"
    background = "select pgq.ticker()"
    rereads = False
    most = 200_000

    def install(self, dsn: str) -> None:
        """Create the extension."""
        link = Link(dsn)
        try:
            if not link.scalar("select 1 from pg_available_extensions where name = 'pgq'"):
                raise Unavailable(f"there is no PgQ for PostgreSQL {link.scalar('show server_version')} here")
            link.execute("create extension pgq")
        finally:
            link.close()

    def pause(self, moved: int, took: float) -> float:
        """A fixed pause, a hundredth of the default of pgqd."""
        return _TICK_PAUSE

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create queues with a consumer each, and send a backlog with a tick after each batch."""
        size = cell.receive or cell.batch
        for lane in range(_LANES):
            queue = f"bench{lane}"
            link.execute(f"select pgq.create_queue('{queue}'), pgq.register_consumer('{queue}', 'bench')")
            for name, value in (("ticker_max_count", size), ("ticker_max_lag", "20 milliseconds")):
                link.execute(f"select pgq.set_queue_config('{queue}', '{name}', '{value}')")
            link.prepare(f"fill{lane}", _SEND_MANY.format(lane=lane))
            link.prepare(f"tick{lane}", f"select pgq.ticker('{queue}')")
        batches = cycle([array(chunk, TEXT_OID) for chunk in chunks(bodies(0), size)])
        for at in range(backlog // size):
            link.run(b"fill%d" % (at % _LANES), [next(batches)])
            link.run(b"tick%d" % (at % _LANES))
        if cell.kind is Kind.LATENCY:
            link.execute("update pgq.queue set queue_ticker_max_lag = '1 millisecond'")

    def script(self, cell: Cell, body: str) -> str:
        """One event."""
        return _ONE_SEND.format(body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """Inserts events. In an end-to-end cell every producer has its own queue."""
        return _Sends(link, cell, index, index % _LANES if cell.kind is Kind.E2E else 0)

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Reads the batches of its own queue."""
        return _Batches(link, cell, index % _LANES)

    def sender(self, link: Link) -> Callable[[bytes], None]:
        """`insert_event` for each document."""
        link.prepare("one", "select pgq.insert_event('bench0', 'bench', $1::text)")

        def send(body: bytes) -> None:
            link.run(b"one", [body])

        return send

    def decider(self, link: Link, cell: Cell, index: int) -> Decider:
        """PgQ has nothing like a half message."""
        raise Unavailable("PgQ has no half messages")

    def stored(self, link: Link, cell: Cell) -> int:
        """Count the events in the tables of all queues."""
        return int(link.scalar(_EVENTS))


class _Sends:
    def __init__(self, link: Link, cell: Cell, index: int, lane: int) -> None:
        link.prepare("send", _SEND_MANY.format(lane=lane))
        self._params = cycle([array(chunk, TEXT_OID) for chunk in chunks(bodies(index), cell.batch)])
        self._link, self._batch = link, cell.batch

    def step(self) -> int:
        self._link.run(b"send", [next(self._params)])
        return self._batch


class _Batches:
    def __init__(self, link: Link, cell: Cell, lane: int) -> None:
        link.prepare("next", f"select pgq.next_batch('bench{lane}', 'bench')")
        link.prepare("events", "select * from pgq.get_batch_events($1::bigint)")
        link.prepare("finish", "select pgq.finish_batch($1::bigint)")
        self.seen = Seen()
        self._link, self._lane = link, lane
        self._timed = cell.kind is Kind.LATENCY

    def step(self) -> int:
        batch = self._link.run(b"next").get_value(0, 0)
        if batch is None:
            return 0
        events = self._link.run(b"events", [bigint(int8(batch))])
        rows = events.ntuples
        self._link.run(b"finish", [batch])
        if rows:
            if self._timed:
                self.seen.note_waits(events.get_value(row, _DATA) or b"" for row in range(rows))

            def number(row: int) -> int:
                return int8(events.get_value(row, _ID))

            self.seen.ranges.extend(numbers(self._lane, number(0), number, rows))
        return rows

    def wait(self) -> None:
        time.sleep(_POLL)
