"""PGMQ, from the SQL that the PyPI package `pgmq` bundles, with the calls that a user makes.

Half messages follow the MNS scheme on two queues. A first transaction sends a delayed message and a
delayed op-log entry. A second one makes the message visible and deletes the entry. Each step is a
call of its own. For comparison (`packed`), each transaction is also run as one statement.
"""

from __future__ import annotations

from importlib.resources import files

from ..cells import Cell, Kind
from ..client import INT8_OID, JSONB_OID, Link, array, connected, int8
from .base import Consumer, Side, Step

__all__ = ["PgmqSide"]

_SEND_BATCH = "select pgmq.send_batch('bench', $1::jsonb[])"
_ONE_SEND = "select pgmq.send('bench', {body}::jsonb);\n"
_ONE_HALF = """begin;
select pgmq.send('bench', {body}::jsonb, 3600) as half \\gset
select pgmq.send('bench_log', jsonb_build_object('handle', :half::bigint), 60) as log \\gset
commit;
begin;
select msg_id from pgmq.set_vt('bench', :half::bigint, 0);
select pgmq.delete('bench_log', :log::bigint);
commit;
"""
_ONE_HALF_PACKED = """with half as materialized (select id from pgmq.send('bench', {body}::jsonb, 3600) as id)
select half.id as half, pgmq.send('bench_log', jsonb_build_object('handle', half.id), 60) as log from half \\gset
select visible.msg_id, pgmq.delete('bench_log', :log::bigint)
from pgmq.set_vt('bench', :half::bigint, 0) as visible;
"""
_PREPARE_BATCH = """
with half as materialized (
    select array_agg(id) as ids from pgmq.send_batch('bench', $1::jsonb[], 3600) as id)
select half.ids, array(select pgmq.send_batch('bench_log',
    array(select jsonb_build_object('handle', id) from unnest(half.ids) as id), 60)) from half"""
_COMMIT_BATCH = """
select (select count(*) from pgmq.set_vt('bench', $1::bigint[], 0)),
    (select count(*) from pgmq.delete('bench_log', $2::bigint[]))"""
_COMMITTED = """
select (select count(*) from pgmq.q_bench where vt <= clock_timestamp()) - (select count(*) from pgmq.q_bench_log)"""


class PgmqSide(Side):
    """pgmq: send, read and delete."""

    name = "pgmq"
    oid = JSONB_OID
    one = "select pgmq.send('bench', $1::jsonb)"

    def install(self, dsn: str) -> None:
        """Install the extension, or else the bundled SQL, unless mqpg has already done so."""
        with connected(dsn) as link:
            if link.scalar("select 1 from pg_namespace where nspname = 'pgmq'"):
                return
            if link.scalar("select 1 from pg_available_extensions where name = 'pgmq'"):
                link.execute("create extension pgmq")
            else:
                link.execute((files("pgmq") / "sql" / "pgmq.sql").read_text())

    def encode(self, body: bytes) -> bytes:
        """The binary form of type jsonb: a version byte and text."""
        return b"\x01" + body

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create a queue, and another one for the op log, and send the backlog in thousands."""
        link.execute("select pgmq.create('bench')")
        if cell.kind is Kind.HALF:
            link.execute("select pgmq.create('bench_log')")
        link.prepare("fill", _SEND_BATCH)
        batches = self.batches(0, 1000)
        for _ in range(backlog // 1000):
            link.run(b"fill", [next(batches)])

    def script(self, cell: Cell, body: str) -> str:
        """A send, or the MNS scheme: a call per step, or (`packed`) a statement per transaction."""
        if cell.kind is Kind.HALF:
            return (_ONE_HALF_PACKED if cell.packed else _ONE_HALF).format(body=body)
        return _ONE_SEND.format(body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Step:
        """Sends, or the MNS scheme."""
        if cell.kind is not Kind.HALF:
            return self.sends(link, cell, index, _SEND_BATCH)
        link.prepare("prepare", _PREPARE_BATCH)
        link.prepare("commit", _COMMIT_BATCH)
        batches = self.batches(index, cell.batch)

        def step() -> int:
            half = link.run(b"prepare", [next(batches)])
            link.run(b"commit", [half.get_value(0, 0) or b"", half.get_value(0, 1) or b""])
            return cell.batch

        return step

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Reads a batch and deletes it."""
        return _Reads(link, cell)

    def stored(self, link: Link, cell: Cell) -> int:
        """Count all messages that were sent; of halves, the visible ones without an op-log entry."""
        if cell.kind is Kind.HALF:
            return int(link.scalar(_COMMITTED))
        return int(link.scalar("select total_messages from pgmq.metrics('bench')"))


class _Reads(Consumer):
    def __init__(self, link: Link, cell: Cell) -> None:
        super().__init__(link, cell)
        link.prepare("read", f"select * from pgmq.read('bench', 30, {self.most})")
        link.prepare("delete", "select pgmq.delete('bench', $1::bigint[])")

    def step(self) -> int:
        result = self.link.run(b"read")
        rows = range(result.ntuples)
        if self.timed and rows:
            at = next(number for number in range(result.nfields) if result.fname(number) == b"message")
            self.seen.note_waits(result.get_value(row, at) or b"" for row in rows)
        ids = [result.get_value(row, 0) or b"" for row in rows]
        if ids:
            self.link.run(b"delete", [array(ids, INT8_OID)])
            self.seen.ids.extend(map(int8, ids))
        return len(ids)
