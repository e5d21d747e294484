"""The cells of the benchmark: what is measured, with how many clients, for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["CELLS", "Cell", "Kind", "choose", "quick"]


class Kind(StrEnum):
    """What the clients of a cell do."""

    SEND = "send"  # producers only
    RECEIVE = "receive"  # consumers drain a backlog
    HALF = "half"  # half message and commit, or the nearest thing that the side has
    E2E = "e2e"  # producers and consumers at once
    LATENCY = "latency"  # a message at a time, 200 a second, and one consumer
    SCALE = "scale"  # consumers of a backlog, and then producers, in a broker with much in it
    APPEND = "append"  # the appender alone, over a backlog of messages that were sent one by one


@dataclass(frozen=True)
class Cell:
    """One line of the result. `seconds` is the longest time for which a run of it is measured."""

    name: str
    title: str
    kind: Kind
    clients: int
    batch: int
    seconds: float
    sides: tuple[str, ...] = ("mqpg", "pgmq", "pgq", "bare")
    receive: int = 0  # messages asked for by a receive of an end-to-end cell
    backlog: int = 0  # messages that wait at the beginning
    held: bool = False  # an old transaction holds xmin during the run
    # Receive and ack are in one transaction, like a consumer whose effects are in it too.
    together: bool = False
    chained: bool = False  # mqpg: each receive acknowledges the delivery before it, in one call
    singly: bool = False  # the backlog was sent one message at a time
    packed: bool = False  # the MNS scheme in one statement per transaction, not one per step
    library: bool = False  # the consumer is that of the Python library
    groups: int = 1  # consumer groups that read the topic
    topics: int = 1
    queues: int = 8  # of each topic
    rounds: int = 99  # at most so many, because it takes long to prepare
    extra: bool = False  # only runs when it is named, because it takes long

    @property
    def scripted(self) -> bool:
        """Whether pgbench is the client, because a call has one message."""
        return self.batch == 1 and self.kind in (Kind.SEND, Kind.HALF)


_MANY = 400_000  # messages waiting when a receive cell begins
_OURS = ("mqpg",)
_QUEUES = ("mqpg", "pgmq")
_HALVES = ("mqpg", "pgmq", "bare")


_SMALL = Cell(
    "scale-small", "receive+ack ×100 of 400,000 messages, 1 group, 1 topic, 8 queues; then send ×1", Kind.SCALE, 2, 100,
    3, _OURS, backlog=_MANY, extra=True,
)  # fmt: skip


CELLS = (
    Cell("send-1", "send ×1, 16 clients", Kind.SEND, 16, 1, 4),
    Cell("send-1000", "send ×1000, 2 clients", Kind.SEND, 2, 1000, 3),
    Cell("receive-100", "receive+ack ×100, 2 clients", Kind.RECEIVE, 2, 100, 2.5, backlog=_MANY),
    Cell(
        "receive-100-together", "the same in one transaction", Kind.RECEIVE, 2, 100, 2.5, _QUEUES, backlog=_MANY,
        together=True,
    ),
    Cell(
        "receive-100-chained", "the same, acknowledged by the next receive", Kind.RECEIVE, 2, 100, 2.5, _QUEUES,
        backlog=_MANY, chained=True,
    ),
    Cell(
        "receive-100-singly", "receive+ack ×100, 2 clients, sent one by one", Kind.RECEIVE, 2, 100, 2.5, _QUEUES,
        backlog=100_000, singly=True,
    ),
    Cell("receive-1000", "receive+ack ×1000, 2 clients", Kind.RECEIVE, 2, 1000, 2.5, backlog=_MANY),
    Cell(
        "receive-1000-chained", "the same, acknowledged by the next receive", Kind.RECEIVE, 2, 1000, 2.5, _QUEUES,
        backlog=_MANY, chained=True,
    ),
    Cell("half-1", "half+commit ×1, 16 clients", Kind.HALF, 16, 1, 4, _HALVES),
    Cell("half-1-packed", "the same, MNS in 2 statements", Kind.HALF, 16, 1, 4, _QUEUES, packed=True),
    Cell("half-100", "half+commit ×100, 2 clients", Kind.HALF, 2, 100, 3, _HALVES),
    Cell("e2e-100", "end to end 2+2, send ×100, receive ×100", Kind.E2E, 2, 100, 6, receive=100),
    Cell("e2e", "end to end 2+2, send ×100, receive ×1000", Kind.E2E, 2, 100, 6, receive=1000),
    Cell(
        "e2e-chained", "the same, acknowledged by the next receive", Kind.E2E, 2, 100, 6, ("mqpg", "bare"),
        receive=1000, chained=True,
    ),
    Cell("e2e-held", "end to end, xmin held", Kind.E2E, 2, 100, 6, _QUEUES, receive=1000, held=True),
    Cell("latency-sql", "latency at 200/s, SQL consumer", Kind.LATENCY, 1, 1, 5, ("mqpg", "pgmq", "pgq"), extra=True),
    Cell(
        "latency-python", "latency at 200/s, Python consumer", Kind.LATENCY, 1, 1, 5, _QUEUES, library=True, extra=True,
    ),
    _SMALL,
    replace(_SMALL, name="scale-groups", title="the same, 100 groups", groups=100),
    replace(_SMALL, name="scale-topics", title="the same, 1,000 topics", topics=1_000, backlog=1_000_000),
    replace(_SMALL, name="scale-queues", title="the same, 256 queues", queues=256),
    replace(_SMALL, name="scale-backlog", title="the same, 10 million messages", backlog=10_000_000, rounds=2),
    Cell(
        "append", "append 500,000 single messages", Kind.APPEND, 1, 1, 60, _OURS, backlog=500_000, singly=True,
        extra=True,
    ),
    Cell(
        "append-10m", "append 10 million single messages", Kind.APPEND, 1, 1, 300, _OURS, backlog=10_000_000,
        singly=True, rounds=1, extra=True,
    ),
    Cell("e2e-long", "end to end, 10 minutes", Kind.E2E, 2, 100, 600, _OURS, receive=1000, rounds=1, extra=True),
    Cell(
        "e2e-held-long", "end to end, xmin held for 10 minutes", Kind.E2E, 2, 100, 600, _OURS, receive=1000, held=True,
        rounds=1, extra=True,
    ),
)  # fmt: skip


def choose(names: Iterable[str]) -> tuple[Cell, ...]:
    """The cells with these names, in the table's order. The name "all" stands for each of them.

    Where no name is given, all but the extra ones.
    """
    wanted = set(names)
    if wanted == {"all"}:
        return CELLS
    unknown = wanted - {cell.name for cell in CELLS}
    if unknown:
        known = ", ".join(cell.name for cell in CELLS)
        raise ValueError(f"unknown cell {', '.join(sorted(unknown))}; there are: {known}")
    return tuple(cell for cell in CELLS if (cell.name in wanted if wanted else not cell.extra))


def quick(cell: Cell) -> Cell:
    """The same cell, measured for a shorter time, with less to read."""
    return replace(cell, seconds=min(1 if cell.kind is not Kind.E2E else 2, cell.seconds / 2),
                   backlog=min(cell.backlog, 20_000 if cell.singly else 100_000))  # fmt: skip
