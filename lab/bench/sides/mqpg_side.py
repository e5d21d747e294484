"""mqpg, by its SQL functions.

The appender runs beside the clients, so every figure includes its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from psycopg.pq.abc import PGresult

from mqpg import migrate
from mqpg.workers.append_pace import AppendPace

from ..cells import Cell, Kind
from ..link import Link, int4, int8
from ..payload import TEXT_OID, array
from .base import Consumer, Decider, Producer, Seen, bodies, chunks

__all__ = ["APPEND", "MqpgSide"]

APPEND = "select mqpg.append()"

_ONE_SEND = "select mqpg.send({topic}, {body}::text);\n"
_RANDOM_TOPIC = "\\set topic random(1, {topics})\n"
_ONE_HALF = """select mqpg.prepare('bench', {body}::text, 'bench') as handle \\gset
select mqpg.commit(:handle::text);
"""
_SEND_BATCH = "select mqpg.send_batch('bench', $1::text[])"
_FILL = "select mqpg.send_batch($2::text, $1::text[])"
# As many record batches as messages, like a send for each, without the way to the client.
_FILL_SINGLY = "select count(mqpg.send($2::text, payload)) from unnest($1::text[]) as payload"
_RECEIVE = "select * from mqpg.receive($1::text, $2::text, {n})"
# Acknowledges the delivery before it too. There is none in the first call.
_RECEIVE_NEXT = "select * from mqpg.receive($1::text, $2::text, {n}, ack => nullif($3::text, ''))"
_ACK = "select mqpg.ack($1::text)"
_PREPARE_BATCH = "select mqpg.prepare_batch('bench', $1::text[], 'bench')"
_COMMIT_BATCH = "select outcome from mqpg.commit_batch($1::text[])"

_QUEUE, _OFFSET, _PAYLOAD, _RECEIPT = 2, 3, 7, 10  # columns of mqpg.delivery


class MqpgSide:
    """mqpg: send, receive and ack, prepare and commit."""

    name = "mqpg"
    background = APPEND
    rereads = False
    most = 400_000

    def __init__(self) -> None:
        self._pace = AppendPace()

    def install(self, dsn: str) -> None:
        """Install the schema as `mqpg migrate` does."""
        migrate.upgrade(dsn)

    def pause(self, moved: int, took: float) -> float:
        """The pace of `mqpg worker`."""
        return float(self._pace.after(moved, took))

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create the topics and the groups, and send a backlog that already has its offsets."""
        link.execute("select mqpg.create_producer_group('bench')")
        for topic in _topics(cell):
            link.execute(f"select mqpg.create_topic('{topic}', {cell.queues})")
            for group in _groups(cell):
                link.execute(f"select mqpg.subscribe('{group}', '{topic}')")
        link.prepare("fill", _FILL_SINGLY if cell.singly else _FILL)
        batches = cycle(chunks(bodies(0), 1000))
        topics = cycle(_topics(cell))
        for _ in range(backlog // 1000):
            link.run(b"fill", [array(next(batches), TEXT_OID), next(topics).encode()])
        _append_all(link)

    def script(self, cell: Cell, body: str) -> str:
        """A send, or a half message and its commit."""
        if cell.kind is Kind.HALF:
            return _ONE_HALF.format(body=body)
        if cell.topics > 1:
            return _RANDOM_TOPIC.format(topics=cell.topics) + _ONE_SEND.format(topic="'bench' || :topic", body=body)
        return _ONE_SEND.format(topic="'bench'", body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """Sends, or halves with their commits."""
        if cell.kind is Kind.HALF:
            return _Halves(link, cell, index)
        return _Sends(link, cell, index)

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Receives a batch and acknowledges it."""
        return _Receives(link, cell, index)

    def sender(self, link: Link) -> Callable[[bytes], None]:
        """`mqpg.send` for each document."""
        link.prepare("one", "select mqpg.send('bench', $1::text)")

        def send(body: bytes) -> None:
            link.run(b"one", [body])

        return send

    def decider(self, link: Link, cell: Cell, index: int) -> Decider:
        """`mqpg.prepare` and `mqpg.commit`."""
        return _Steps(link, index)

    def stored(self, link: Link, cell: Cell) -> int:
        """Append everything, then count the messages that have an offset."""
        _append_all(link)
        return int(link.scalar("select coalesce(sum(n), 0) from mqpg.consume_queue where queue_id >= 0"))


def _topics(cell: Cell) -> list[str]:
    return ["bench"] if cell.topics == 1 else [f"bench{number}" for number in range(1, cell.topics + 1)]


def _groups(cell: Cell) -> list[str]:
    return ["bench"] if cell.groups == 1 else [f"bench{number}" for number in range(1, cell.groups + 1)]


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


class _Steps:
    """A half message and its commit, in two calls."""

    def __init__(self, link: Link, index: int) -> None:
        link.prepare("prepare", "select mqpg.prepare('bench', $1::text, 'bench')")
        link.prepare("commit", "select mqpg.commit($1::text)")
        self._params = cycle(bodies(index))
        self._link = link
        self._handle = b""

    def prepare(self) -> bytes:
        self._handle = self._link.run(b"prepare", [next(self._params)]).get_value(0, 0) or b""
        return self._handle

    def commit(self) -> None:
        outcome = self._link.run(b"commit", [self._handle]).get_value(0, 0)
        if outcome != b"committed":
            raise RuntimeError(f"the outcome of a first commit was {outcome!r}")


class _Receives:
    """Receives and acknowledges, in turn for its groups or from its topics."""

    def __init__(self, link: Link, cell: Cell, index: int) -> None:
        self._timed = cell.kind is Kind.LATENCY
        receive = _RECEIVE_NEXT if cell.chained else _RECEIVE
        link.prepare("receive", receive.format(n=100 if self._timed else cell.receive or cell.batch))
        link.prepare("ack", _ACK)
        # By turn: the delivery that the next receive acknowledges.
        self._open: dict[int, bytes] | None = {} if cell.chained else None
        if self._timed:
            link.execute("listen mqpg")
        pairs = [(group, topic) for group in _groups(cell) for topic in _topics(cell)]
        mine = pairs[index % len(pairs) :: cell.clients] if len(pairs) > 1 else pairs
        self._turns = cycle([(lane, [one.encode() for one in pair]) for lane, pair in enumerate(mine)])
        self.seen = Seen()
        # A number for each queue of each subscription, different from those of other clients.
        self._lane = index * len(mine) if len(pairs) > 1 else 0
        self._queues = cell.queues
        self._link = link

    def step(self) -> int:
        turn, names = next(self._turns)
        result = self._receive(turn, names)
        rows = result.ntuples
        if not rows:
            return 0
        if self._timed:
            self.seen.note_waits(result.get_value(row, _PAYLOAD) or b"" for row in range(rows))
        lane = (self._lane + turn) * self._queues + int4(result.get_value(0, _QUEUE))
        first, last = (int8(result.get_value(row, _OFFSET)) for row in (0, rows - 1))
        if last - first + 1 != rows:
            raise RuntimeError(f"lane {lane}: {rows} messages at offsets {first} to {last}")
        self.seen.ranges.append((lane, first, last))
        return rows

    def _receive(self, turn: int, names: list[bytes]) -> PGresult:
        if self._open is not None:
            result = self._link.run(b"receive", [*names, self._open.pop(turn, b"")])
            self._open[turn] = _receipt(result)
            return result
        result = self._link.run(b"receive", names)
        if result.ntuples:
            self._link.run(b"ack", [_receipt(result)])
        return result

    def wait(self) -> None:
        self._link.wait_for_notification(0.5)


def _receipt(result: PGresult) -> bytes:
    """The receipt of a delivery; b"" where nothing was delivered."""
    return (result.get_value(0, _RECEIPT) if result.ntuples else None) or b""
