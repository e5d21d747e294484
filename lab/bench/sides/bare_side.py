"""The floor: what PostgreSQL itself costs, with INSERT and SELECT only.

Each pair of clients has a table. Nothing is acknowledged, and positions are variables of the
client. As a consequence, no queue can be much faster than this.
"""

from __future__ import annotations

import struct

from ..cells import Cell, Kind
from ..client import INT8_OID, JSON_OID, Link, array, connected, int8
from .base import Consumer, Side, Step

__all__ = ["BareSide"]

_TABLES = 2
_CREATE = """
create table bench_message_{table} (id bigint generated always as identity primary key,
    born_at timestamptz not null default clock_timestamp(), payload json not null)"""
_ONE_SEND = "insert into bench_message_0 (payload) values ({body}::json);\n"
_ONE_HALF = """insert into bench_message_0 (payload) values ({body}::json) returning id \\gset
insert into bench_decision values (:id::bigint);
"""
_INSERT_MANY = "insert into bench_message_{table} (payload) select unnest($1::json[])"
_SELECT = "select id, payload from bench_message_{table} where id > $1::bigint order by id limit {n}"


class BareSide(Side):
    """INSERT and SELECT without any queue."""

    name = "bare"
    oid = JSON_OID
    one = "insert into bench_message_0 (payload) values ($1::json)"
    rereads = True
    most = 400_000

    def install(self, dsn: str) -> None:
        """Create the message tables and one table for decisions."""
        with connected(dsn) as link:
            for table in range(_TABLES):
                link.execute(_CREATE.format(table=table))
            link.execute("create table bench_decision (id bigint primary key)")

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Fill all tables with the same messages."""
        for table in range(_TABLES):
            link.prepare(f"fill{table}", _INSERT_MANY.format(table=table))
        batches = self.batches(0, 1000)
        for at in range(backlog // 1000):
            link.run(b"fill%d" % (at % _TABLES), [next(batches)])

    def script(self, cell: Cell, body: str) -> str:
        """One INSERT, or two in two transactions: the message, then its decision."""
        return (_ONE_HALF if cell.kind is Kind.HALF else _ONE_SEND).format(body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Step:
        """In an end-to-end cell every producer has its own table, otherwise all share the first."""
        if cell.kind is Kind.HALF:
            return self._halves(link, cell, index)
        table = index % _TABLES if cell.kind is Kind.E2E else 0
        return self.sends(link, cell, index, _INSERT_MANY.format(table=table))

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Every consumer reads its own table in order."""
        return _Reads(link, cell, index % _TABLES)

    def _halves(self, link: Link, cell: Cell, index: int) -> Step:
        """Two INSERTs in two transactions: the message, then its decision."""
        link.prepare("prepare", _INSERT_MANY.format(table=0) + " returning id")
        link.prepare("commit", "insert into bench_decision select unnest($1::bigint[])")
        batches = self.batches(index, cell.batch)

        def step() -> int:
            result = link.run(b"prepare", [next(batches)])
            ids = [result.get_value(row, 0) or b"" for row in range(result.ntuples)]
            link.run(b"commit", [array(ids, INT8_OID)])
            return cell.batch

        return step

    def stored(self, link: Link, cell: Cell) -> int:
        """Count the rows of the tables."""
        if cell.kind is Kind.HALF:
            return int(link.scalar("select count(*) from bench_decision join bench_message_0 using (id)"))
        tables = " + ".join(f"(select count(*) from bench_message_{table})" for table in range(_TABLES))
        return int(link.scalar(f"select {tables}"))


class _Reads(Consumer):
    def __init__(self, link: Link, cell: Cell, table: int) -> None:
        super().__init__(link, cell)
        link.prepare("read", _SELECT.format(table=table, n=self.most))
        self._table, self._at = table, 0
        self._again = cell.kind is Kind.RECEIVE

    def step(self) -> int:
        result = self.link.run(b"read", [struct.pack("!q", self._at)])
        if not result.ntuples:
            self._at = 0 if self._again else self._at
            return 0
        first, last = int8(result.get_value(0, 0)), int8(result.get_value(result.ntuples - 1, 0))
        self._at = last
        if not self._again:
            self.seen.ranges.append((self._table, first, last))
        return result.ntuples
