"""The floor: what PostgreSQL itself costs, with INSERT and SELECT only.

Each pair of clients has a table. Nothing is acknowledged, and positions are variables of the
client. As a consequence, no queue can be much faster than this.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle

from ..cells import Cell, Kind
from ..link import Link, bigint, int8
from ..payload import JSON_OID, array
from .base import Consumer, Decider, Producer, Seen, bodies, chunks

__all__ = ["BareSide"]

_LANES = 2
_ONE_SEND = "insert into bench_message_0 (payload) values ({body}::json);\n"
_ONE_HALF = """insert into bench_message_0 (payload) values ({body}::json) returning id \\gset
insert into bench_decision values (:id::bigint);
"""
_INSERT_MANY = "insert into bench_message_{lane} (payload) select unnest($1::json[])"
_SELECT = "select id, payload from bench_message_{lane} where id > $1::bigint order by id limit {n}"
_DECIDE = "insert into bench_decision select unnest($1::bigint[])"


class BareSide:
    """INSERT and SELECT without any queue."""

    name = "bare"
    background = ""
    rereads = True
    most = 400_000

    def install(self, dsn: str) -> None:
        """Create a message table for each lane and one table for decisions."""
        link = Link(dsn)
        for lane in range(_LANES):
            link.execute(
                f"create table bench_message_{lane} (id bigint generated always as identity primary key,"
                " born_at timestamptz not null default clock_timestamp(), payload json not null)"
            )
        link.execute("create table bench_decision (id bigint primary key)")
        link.close()

    def pause(self, moved: int, took: float) -> float:
        """There is nothing in the background."""
        return 0.0

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Fill all lanes with the same messages."""
        for lane in range(_LANES):
            link.prepare(f"fill{lane}", _INSERT_MANY.format(lane=lane))
        batches = cycle(chunks(bodies(0), 1000))
        for at in range(backlog // 1000):
            link.run(b"fill%d" % (at % _LANES), [array(next(batches), JSON_OID)])

    def script(self, cell: Cell, body: str) -> str:
        """One INSERT, or two in two transactions: the message, then its decision."""
        return (_ONE_HALF if cell.kind is Kind.HALF else _ONE_SEND).format(body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """In an end-to-end cell every producer has its own lane, otherwise all share the first."""
        lane = index % _LANES if cell.kind is Kind.E2E else 0
        if cell.kind is Kind.HALF:
            return _Halves(link, cell, index)
        return _Sends(link, cell, index, lane)

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Every consumer reads its own lane in order."""
        return _Reads(link, cell, index % _LANES)

    def sender(self, link: Link) -> Callable[[bytes], None]:
        """One INSERT for each document."""
        link.prepare("one", "insert into bench_message_0 (payload) values ($1::json)")

        def send(body: bytes) -> None:
            link.run(b"one", [body])

        return send

    def decider(self, link: Link, cell: Cell, index: int) -> Decider:
        """Two INSERTs in two transactions."""
        return _Halves(link, cell, index)

    def stored(self, link: Link, cell: Cell) -> int:
        """Count the rows of the tables."""
        if cell.kind in (Kind.HALF, Kind.LEDGER):
            return int(link.scalar("select count(*) from bench_decision join bench_message_0 using (id)"))
        tables = " + ".join(f"(select count(*) from bench_message_{lane})" for lane in range(_LANES))
        return int(link.scalar(f"select {tables}"))


class _Sends:
    def __init__(self, link: Link, cell: Cell, index: int, lane: int) -> None:
        link.prepare("send", _INSERT_MANY.format(lane=lane))
        self._params = cycle([array(chunk, JSON_OID) for chunk in chunks(bodies(index), cell.batch)])
        self._link, self._batch = link, cell.batch

    def step(self) -> int:
        self._link.run(b"send", [next(self._params)])
        return self._batch


class _Halves:
    """Two INSERTs in two transactions: the message, then its decision."""

    def __init__(self, link: Link, cell: Cell, index: int) -> None:
        link.prepare("prepare", _INSERT_MANY.format(lane=0) + " returning id")
        link.prepare("commit", _DECIDE)
        self._params = cycle([array(chunk, JSON_OID) for chunk in chunks(bodies(index), cell.batch)])
        self._link, self._batch = link, cell.batch
        self._ids: list[bytes] = []

    def step(self) -> int:
        self.prepare()
        self.commit()
        return self._batch

    def prepare(self) -> bytes:
        result = self._link.run(b"prepare", [next(self._params)])
        self._ids = [result.get_value(row, 0) or b"" for row in range(result.ntuples)]
        return str(int8(self._ids[0])).encode()

    def commit(self) -> None:
        self._link.run(b"commit", [array(self._ids, 20)])


class _Reads:
    def __init__(self, link: Link, cell: Cell, lane: int) -> None:
        link.prepare("read", _SELECT.format(lane=lane, n=cell.receive or cell.batch))
        self.seen = Seen()
        self._link, self._lane, self._at = link, lane, 0
        self._again = cell.kind is Kind.RECEIVE

    def step(self) -> int:
        result = self._link.run(b"read", [bigint(self._at)])
        if not result.ntuples:
            self._at = 0 if self._again else self._at
            return 0
        first, last = int8(result.get_value(0, 0)), int8(result.get_value(result.ntuples - 1, 0))
        self._at = last
        if not self._again:
            self.seen.ranges.append((self._lane, first, last))
        return result.ntuples

    def wait(self) -> None:
        time.sleep(0.005)
