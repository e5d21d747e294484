"""mqpg, by its SQL functions.

The appender runs beside the clients, so every figure includes its cost.
"""

from __future__ import annotations

from itertools import cycle

from mqpg import migrate

from ..cells import Cell, Kind
from ..link import Link, int4, int8
from ..payload import TEXT_OID, array
from .base import Consumer, Producer, Seen, bodies, chunks

__all__ = ["APPEND", "MqpgSide"]

APPEND = "select mqpg.append()"

_ONE_SEND = "select mqpg.send('bench', {body}::text);\n"
_ONE_HALF = """select mqpg.prepare('bench', {body}::text, 'bench') as handle \\gset
select mqpg.commit(:handle::text);
"""
_SEND_BATCH = "select mqpg.send_batch('bench', $1::text[])"
# As many record batches as messages, like a send for each, without the way to the client.
_SEND_EACH = "select count(mqpg.send('bench', payload)) from unnest($1::text[]) as payload"
_RECEIVE = "select * from mqpg.receive('bench', 'bench', {n})"
_ACK = "select mqpg.ack($1::text)"
_PREPARE_BATCH = "select mqpg.prepare_batch('bench', $1::text[], 'bench')"
_COMMIT_BATCH = "select outcome from mqpg.commit_batch($1::text[])"

_QUEUE, _OFFSET, _RECEIPT = 2, 3, 10  # columns of mqpg.delivery


class MqpgSide:
    """mqpg: send, receive and ack, prepare and commit."""

    name = "mqpg"
    appends = True
    rereads = False

    def install(self, dsn: str) -> None:
        """Install the schema as `mqpg migrate` does."""
        migrate.upgrade(dsn)

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create the topic and the groups, and send a backlog that already has its offsets."""
        link.execute("select mqpg.create_topic('bench')")
        link.execute("select mqpg.create_producer_group('bench')")
        link.execute("select mqpg.subscribe('bench', 'bench')")
        link.prepare("fill", _SEND_EACH if cell.singly else _SEND_BATCH)
        batches = cycle(chunks(bodies(0), 1000))
        for _ in range(backlog // 1000):
            link.run(b"fill", [array(next(batches), TEXT_OID)])
        _append_all(link)

    def script(self, cell: Cell, body: str) -> str:
        """A send, or a half message and its commit."""
        return (_ONE_HALF if cell.kind is Kind.HALF else _ONE_SEND).format(body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """Sends, or halves with their commits."""
        if cell.kind is Kind.HALF:
            return _Halves(link, cell, index)
        return _Sends(link, cell, index)

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Receives a batch and acknowledges it."""
        return _Receives(link, cell)

    def stored(self, link: Link, cell: Cell) -> int:
        """Append everything, then count the messages that have an offset."""
        _append_all(link)
        return int(link.scalar("select coalesce(sum(n), 0) from mqpg.consume_queue where queue_id >= 0"))


def _append_all(link: Link) -> None:
    while int(link.scalar(APPEND)):
        pass


def _params(cell: Cell, index: int) -> cycle[bytes]:
    return cycle([array(chunk, TEXT_OID) for chunk in chunks(bodies(index), cell.batch)])


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
        self._link = link

    def step(self) -> int:
        halves = self._link.run(b"prepare", [next(self._params)])
        handles = [halves.get_value(row, 0) or b"" for row in range(halves.ntuples)]
        outcomes = self._link.run(b"commit", [array(handles, TEXT_OID)])
        for row in range(outcomes.ntuples):
            if outcomes.get_value(row, 0) != b"committed":
                raise RuntimeError(f"the outcome of a first commit was {outcomes.get_value(row, 0)!r}")
        return outcomes.ntuples


class _Receives:
    def __init__(self, link: Link, cell: Cell) -> None:
        link.prepare("receive", _RECEIVE.format(n=cell.receive or cell.batch))
        link.prepare("ack", _ACK)
        self.seen = Seen()
        self._link = link

    def step(self) -> int:
        result = self._link.run(b"receive")
        rows = result.ntuples
        if not rows:
            return 0
        self._link.run(b"ack", [result.get_value(0, _RECEIPT) or b""])
        queue = int4(result.get_value(0, _QUEUE))
        first, last = (int8(result.get_value(row, _OFFSET)) for row in (0, rows - 1))
        if last - first + 1 != rows:
            raise RuntimeError(f"queue {queue}: {rows} messages at offsets {first} to {last}")
        self.seen.ranges.append((queue, first, last))
        return rows
