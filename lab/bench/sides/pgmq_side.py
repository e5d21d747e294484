"""PGMQ, from the SQL that the PyPI package `pgmq` bundles, with the calls that a user makes.

Half messages follow the MNS scheme on two queues. A first transaction sends a delayed message and a
delayed op-log entry. A second one makes the message visible and deletes the entry. Each step is a
call of its own. For comparison (`packed`), each transaction is also run as one statement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from itertools import cycle

from ..cells import Cell, Kind
from ..link import Link, bigints, int8
from ..payload import JSONB_OID, array, jsonb
from .base import Consumer, Decider, Producer, Seen, bodies, chunks

__all__ = ["PgmqSide"]

_SEND_BATCH = "select pgmq.send_batch('bench', $1::jsonb[])"
_READ = "select * from pgmq.read('bench', 30, {n})"
_DELETE = "select pgmq.delete('bench', $1::bigint[])"

_POLL = 0.005  # seconds between two reads of an empty queue, in a latency cell

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


class PgmqSide:
    """pgmq: send, read and delete."""

    name = "pgmq"
    background = ""
    rereads = False
    most = 200_000

    def install(self, dsn: str) -> None:
        """Install the extension, or else the bundled SQL, unless mqpg has already done so."""
        link = Link(dsn)
        if link.scalar("select 1 from pg_namespace where nspname = 'pgmq'"):
            pass
        elif link.scalar("select 1 from pg_available_extensions where name = 'pgmq'"):
            link.execute("create extension pgmq")
        else:
            link.execute((files("pgmq") / "sql" / "pgmq.sql").read_text())
        link.close()

    def pause(self, moved: int, took: float) -> float:
        """There is nothing in the background."""
        return 0.0

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create a queue, and another one for the op log, and send the backlog in thousands."""
        link.execute("select pgmq.create('bench')")
        if cell.kind in (Kind.HALF, Kind.LEDGER):
            link.execute("select pgmq.create('bench_log')")
        link.prepare("fill", _SEND_BATCH)
        batches = cycle(chunks([jsonb(body) for body in bodies(0)], 1000))
        for _ in range(backlog // 1000):
            link.run(b"fill", [array(next(batches), JSONB_OID)])

    def script(self, cell: Cell, body: str) -> str:
        """A send, or the MNS scheme: a call per step, or (`packed`) a statement per transaction."""
        if cell.kind is Kind.HALF:
            return (_ONE_HALF_PACKED if cell.packed else _ONE_HALF).format(body=body)
        return _ONE_SEND.format(body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """Sends, or the MNS scheme."""
        if cell.kind is Kind.HALF:
            return _Halves(link, cell, index)
        return _Sends(link, cell, index)

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Reads a batch and deletes it."""
        return _Reads(link, cell)

    def sender(self, link: Link) -> Callable[[bytes], None]:
        """`pgmq.send` for each document."""
        link.prepare("one", "select pgmq.send('bench', $1::jsonb)")

        def send(body: bytes) -> None:
            link.run(b"one", [jsonb(body)])

        return send

    def decider(self, link: Link, cell: Cell, index: int) -> Decider:
        """The MNS scheme, a call per step."""
        return _Steps(link, index)

    def stored(self, link: Link, cell: Cell) -> int:
        """Count all messages that were sent.

        Of halves, the visible ones without an op-log entry.
        """
        if cell.kind in (Kind.HALF, Kind.LEDGER):
            return int(
                link.scalar(
                    "select (select count(*) from pgmq.q_bench where vt <= clock_timestamp())"
                    " - (select count(*) from pgmq.q_bench_log)"
                )
            )
        return int(link.scalar("select total_messages from pgmq.metrics('bench')"))


def _params(cell: Cell, index: int) -> cycle[bytes]:
    documents = [jsonb(body) for body in bodies(index)]
    return cycle([array(chunk, JSONB_OID) for chunk in chunks(documents, cell.batch)])


class _Sends:
    def __init__(self, link: Link, cell: Cell, index: int) -> None:
        link.prepare("send", _SEND_BATCH)
        self._params = _params(cell, index)
        self._link, self._batch = link, cell.batch

    def step(self) -> int:
        self._link.run(b"send", [next(self._params)])
        return self._batch


class _Halves:
    def __init__(self, link: Link, cell: Cell, index: int) -> None:
        link.prepare("prepare", _PREPARE_BATCH)
        link.prepare("commit", _COMMIT_BATCH)
        self._params = _params(cell, index)
        self._link, self._batch = link, cell.batch

    def step(self) -> int:
        half = self._link.run(b"prepare", [next(self._params)])
        self._link.run(b"commit", [half.get_value(0, 0) or b"", half.get_value(0, 1) or b""])
        return self._batch


class _Steps:
    """The MNS scheme for one message: two transactions of two calls each."""

    def __init__(self, link: Link, index: int) -> None:
        link.prepare("begin", "begin")
        link.prepare("end", "commit")
        link.prepare("half", "select pgmq.send('bench', $1::jsonb, 3600)")
        link.prepare("log", "select pgmq.send('bench_log', jsonb_build_object('handle', $1::bigint), 60)")
        link.prepare("show", "select msg_id from pgmq.set_vt('bench', $1::bigint, 0)")
        link.prepare("drop", "select pgmq.delete('bench_log', $1::bigint)")
        self._params = cycle([jsonb(body) for body in bodies(index)])
        self._link = link
        self._half = self._log = b""

    def prepare(self) -> bytes:
        self._link.run(b"begin")
        self._half = self._link.run(b"half", [next(self._params)]).get_value(0, 0) or b""
        self._log = self._link.run(b"log", [self._half]).get_value(0, 0) or b""
        self._link.run(b"end")
        return str(int8(self._half)).encode()

    def commit(self) -> None:
        self._link.run(b"begin")
        self._link.run(b"show", [self._half])
        self._link.run(b"drop", [self._log])
        self._link.run(b"end")


class _Reads:
    def __init__(self, link: Link, cell: Cell) -> None:
        self._timed = cell.kind is Kind.LATENCY
        link.prepare("read", _READ.format(n=100 if self._timed else cell.receive or cell.batch))
        link.prepare("delete", _DELETE)
        self.seen = Seen()
        self._link = link

    def step(self) -> int:
        result = self._link.run(b"read")
        if self._timed and result.ntuples:
            at = next(number for number in range(result.nfields) if result.fname(number) == b"message")
            self.seen.note_waits(result.get_value(row, at) or b"" for row in range(result.ntuples))
        ids = [result.get_value(row, 0) or b"" for row in range(result.ntuples)]
        if ids:
            self._link.run(b"delete", [bigints(ids)])
            self.seen.ids.extend(map(int8, ids))
        return len(ids)

    def wait(self) -> None:
        time.sleep(_POLL)
