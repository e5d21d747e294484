"""mqpg, by its SQL functions.

The appender runs beside the clients, so every figure includes its cost.
"""

from __future__ import annotations

from itertools import cycle

from psycopg.pq.abc import PGresult

from mqpg import migrate
from mqpg.workers.append_pace import AppendPace

from ..cells import Cell, Kind
from ..client import TEXT_OID, Link, array, int4, int8
from .base import Consumer, Side, Step

__all__ = ["APPEND", "MqpgSide"]

APPEND = "select mqpg.append()"

_ONE_SEND = "select mqpg.send({topic}, {body}::text);\n"
_RANDOM_TOPIC = "\\set topic random(1, {topics})\n"
_ONE_HALF = """select mqpg.prepare('bench', {body}::text, 'bench') as handle \\gset
select mqpg.commit(:handle::text);
"""
_FILL = "select mqpg.send_batch($2::text, $1::text[])"
# As many record batches as messages, like a send for each, without the way to the client.
_FILL_SINGLY = "select count(mqpg.send($2::text, payload)) from unnest($1::text[]) as payload"
_RECEIVE = "select * from mqpg.receive($1::text, $2::text, {n})"
# Acknowledges the delivery before it too. There is none in the first call.
_RECEIVE_NEXT = "select * from mqpg.receive($1::text, $2::text, {n}, ack => nullif($3::text, ''))"

_QUEUE, _OFFSET, _PAYLOAD, _RECEIPT = 2, 3, 7, 10  # columns of mqpg.delivery


class MqpgSide(Side):
    """mqpg: send, receive and ack, prepare and commit."""

    name = "mqpg"
    oid = TEXT_OID
    one = "select mqpg.send('bench', $1::text)"
    background = APPEND
    most = 400_000

    def __init__(self) -> None:
        self._pace = AppendPace()

    def install(self, dsn: str) -> None:
        """Install the schema as `mqpg migrate` does."""
        migrate.upgrade(dsn)

    def pause(self, moved: int, took: float) -> float:
        """The pace of `mqpg worker`."""
        pause: float = self._pace.after(moved, took)
        return pause

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create the topics and the groups, and send a backlog that already has its offsets."""
        link.execute("select mqpg.create_producer_group('bench')")
        for topic in _names(cell.topics):
            link.execute(f"select mqpg.create_topic('{topic}', {cell.queues})")
            for group in _names(cell.groups):
                link.execute(f"select mqpg.subscribe('{group}', '{topic}')")
        link.prepare("fill", _FILL_SINGLY if cell.singly else _FILL)
        batches, topics = self.batches(0, 1000), cycle(_names(cell.topics))
        for _ in range(backlog // 1000):
            link.run(b"fill", [next(batches), next(topics).encode()])
        _append_all(link)

    def script(self, cell: Cell, body: str) -> str:
        """A send, or a half message and its commit."""
        if cell.kind is Kind.HALF:
            return _ONE_HALF.format(body=body)
        if cell.topics > 1:
            return _RANDOM_TOPIC.format(topics=cell.topics) + _ONE_SEND.format(topic="'bench' || :topic", body=body)
        return _ONE_SEND.format(topic="'bench'", body=body)

    def producer(self, link: Link, cell: Cell, index: int) -> Step:
        """Sends, or halves with their commits."""
        if cell.kind is not Kind.HALF:
            return self.sends(link, cell, index, "select mqpg.send_batch('bench', $1::text[])")
        link.prepare("prepare", "select mqpg.prepare_batch('bench', $1::text[], 'bench')")
        link.prepare("commit", "select outcome from mqpg.commit_batch($1::text[])")
        batches = self.batches(index, cell.batch)

        def step() -> int:
            halves = link.run(b"prepare", [next(batches)])
            handles = [halves.get_value(row, 0) or b"" for row in range(halves.ntuples)]
            outcomes = link.run(b"commit", [array(handles, TEXT_OID)])
            for row in range(outcomes.ntuples):
                _require_committed(outcomes.get_value(row, 0))
            return outcomes.ntuples

        return step

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Receives a batch and acknowledges it."""
        return _Receives(link, cell, index)

    def stored(self, link: Link, cell: Cell) -> int:
        """Append everything, then count the messages that have an offset."""
        _append_all(link)
        return int(link.scalar("select coalesce(sum(n), 0) from mqpg.consume_queue where queue_id >= 0"))


def _names(count: int) -> list[str]:
    """The names of so many topics, or of so many groups."""
    return ["bench"] if count == 1 else [f"bench{number}" for number in range(1, count + 1)]


def _append_all(link: Link) -> None:
    while int(link.scalar(APPEND)):
        pass


def _require_committed(outcome: bytes | None) -> None:
    if outcome != b"committed":
        raise RuntimeError(f"the outcome of a first commit was {outcome!r}")


class _Receives(Consumer):
    """Receives and acknowledges, in turn for its groups or from its topics."""

    def __init__(self, link: Link, cell: Cell, index: int) -> None:
        super().__init__(link, cell)
        link.prepare("receive", (_RECEIVE_NEXT if cell.chained else _RECEIVE).format(n=self.most))
        link.prepare("ack", "select mqpg.ack($1::text)")
        # By turn: the delivery that the next receive acknowledges.
        self._open: dict[int, bytes] | None = {} if cell.chained else None
        if self.timed:
            link.execute("listen mqpg")
        pairs = [(group, topic) for group in _names(cell.groups) for topic in _names(cell.topics)]
        mine = pairs[index % len(pairs) :: cell.clients] if len(pairs) > 1 else pairs
        self._turns = cycle([(turn, [one.encode() for one in pair]) for turn, pair in enumerate(mine)])
        # A number for each queue of each subscription, different from those of other clients.
        self._first = index * len(mine) if len(pairs) > 1 else 0
        self._queues = cell.queues

    def step(self) -> int:
        turn, names = next(self._turns)
        result = self._receive(turn, names)
        rows = result.ntuples
        if not rows:
            return 0
        if self.timed:
            self.seen.note_waits(result.get_value(row, _PAYLOAD) or b"" for row in range(rows))
        queue = (self._first + turn) * self._queues + int4(result.get_value(0, _QUEUE))
        first, last = (int8(result.get_value(row, _OFFSET)) for row in (0, rows - 1))
        if last - first + 1 != rows:
            raise RuntimeError(f"queue {queue}: {rows} messages at offsets {first} to {last}")
        self.seen.ranges.append((queue, first, last))
        return rows

    def _receive(self, turn: int, names: list[bytes]) -> PGresult:
        if self._open is not None:
            result = self.link.run(b"receive", [*names, self._open.pop(turn, b"")])
            self._open[turn] = _receipt(result)
            return result
        result = self.link.run(b"receive", names)
        if result.ntuples:
            self.link.run(b"ack", [_receipt(result)])
        return result

    def wait(self) -> None:
        self.link.wait_for_notification(0.5)


def _receipt(result: PGresult) -> bytes:
    """The receipt of a delivery; b"" if nothing was delivered."""
    return (result.get_value(0, _RECEIPT) if result.ntuples else None) or b""
