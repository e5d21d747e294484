"""PgQ (Debian's package `postgresql-15-pgq3`), whose `insert_event` is written in C.

A consumer of PgQ gets whole batches: what was inserted between two ticks. A queue has one reader
for each registered consumer. As a consequence, each pair of clients has a queue of its own, with
one consumer, and batches are as large as ticks make them. The ticker is `pgq.ticker()` in a loop.
"""

from __future__ import annotations

from ..cells import Cell, Kind
from ..client import TEXT_OID, Link, connected, int8
from .base import Consumer, Side, Step, Unavailable, ranges_of

__all__ = ["PgqSide"]

_QUEUES = 2
_TICK_PAUSE = 0.01  # seconds between two calls of the ticker. pgqd waits for a second by default
_SEND_MANY = "select count(pgq.insert_event('bench{queue}', 'bench', body)) from unnest($1::text[]) as body"
_EVENTS = """select coalesce(sum((xpath('/row/n/text()', query_to_xml(
    'select count(*) as n from ' || queue_data_pfx, false, true, '')))[1]::text::bigint), 0) from pgq.queue"""

_ID, _DATA = 0, 5  # columns of get_batch_events


class PgqSide(Side):
    """PgQ: insert_event, next_batch, get_batch_events, finish_batch."""

    name = "pgq"
    oid = TEXT_OID
    one = "select pgq.insert_event('bench0', 'bench', $1::text)"
    background = "select pgq.ticker()"

    def install(self, dsn: str) -> None:
        """Create the extension."""
        with connected(dsn) as link:
            if not link.scalar("select 1 from pg_available_extensions where name = 'pgq'"):
                raise Unavailable(f"there is no PgQ for PostgreSQL {link.scalar('show server_version')} here")
            link.execute("create extension pgq")

    def pause(self, moved: int, took: float) -> float:
        """A fixed pause, a hundredth of the default of pgqd."""
        return _TICK_PAUSE

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create queues with a consumer each, and send a backlog with a tick after each batch."""
        size = cell.receive or cell.batch
        for number in range(_QUEUES):
            queue = f"bench{number}"
            link.execute(f"select pgq.create_queue('{queue}'), pgq.register_consumer('{queue}', 'bench')")
            for name, value in (("ticker_max_count", size), ("ticker_max_lag", "20 milliseconds")):
                link.execute(f"select pgq.set_queue_config('{queue}', '{name}', '{value}')")
            link.prepare(f"fill{number}", _SEND_MANY.format(queue=number))
            link.prepare(f"tick{number}", f"select pgq.ticker('{queue}')")
        batches = self.batches(0, size)
        for at in range(backlog // size):
            link.run(b"fill%d" % (at % _QUEUES), [next(batches)])
            link.run(b"tick%d" % (at % _QUEUES))
        if cell.kind is Kind.LATENCY:
            link.execute("update pgq.queue set queue_ticker_max_lag = '1 millisecond'")

    def script(self, cell: Cell, body: str) -> str:
        """One event."""
        return f"select pgq.insert_event('bench0', 'bench', {body}::text);\n"

    def producer(self, link: Link, cell: Cell, index: int) -> Step:
        """Inserts events. In an end-to-end cell every producer has its own queue."""
        queue = index % _QUEUES if cell.kind is Kind.E2E else 0
        return self.sends(link, cell, index, _SEND_MANY.format(queue=queue))

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Reads the batches of its own queue."""
        return _Batches(link, cell, index % _QUEUES)

    def stored(self, link: Link, cell: Cell) -> int:
        """Count the events in the tables of all queues."""
        return int(link.scalar(_EVENTS))


class _Batches(Consumer):
    def __init__(self, link: Link, cell: Cell, queue: int) -> None:
        super().__init__(link, cell)
        link.prepare("next", f"select pgq.next_batch('bench{queue}', 'bench')")
        link.prepare("events", "select * from pgq.get_batch_events($1::bigint)")
        link.prepare("finish", "select pgq.finish_batch($1::bigint)")
        self._queue = queue

    def step(self) -> int:
        batch = self.link.run(b"next").get_value(0, 0)
        if batch is None:
            return 0
        events = self.link.run(b"events", [batch])
        rows = range(events.ntuples)
        self.link.run(b"finish", [batch])
        if self.timed:
            self.seen.note_waits(events.get_value(row, _DATA) or b"" for row in rows)
        self.seen.ranges += ranges_of((int8(events.get_value(row, _ID)) for row in rows), self._queue)
        return len(rows)
