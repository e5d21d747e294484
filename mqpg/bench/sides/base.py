"""What a side of the comparison offers to the driver and to its client processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ..cells import Cell
from ..link import Link
from ..payload import documents

__all__ = ["BACKLOG", "Consumer", "Producer", "Range", "Seen", "Side", "bodies", "chunks", "runs"]

BACKLOG = 400_000  # messages waiting when a receive cell begins
_DOCUMENTS = 2_000

Range = tuple[int, int, int]  # lane, first and last number delivered, both inclusive


class Producer(Protocol):
    """A producing client; its statements are prepared when it is made."""

    def step(self) -> int:
        """One send, or one half and its commit; messages sent."""
        ...


@dataclass
class Seen:
    """What a consumer got, by the numbers its queue gives to messages."""

    ranges: list[Range] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)  # where numbers have gaps; made into ranges at the end

    def as_ranges(self) -> list[Range]:
        """All of it as ranges; a number seen twice is in two of them."""
        return self.ranges + runs(self.ids)


class Consumer(Protocol):
    """A consuming client."""

    seen: Seen

    def step(self) -> int:
        """One receive and ack; messages got, 0 where there is nothing."""
        ...


class Side(Protocol):
    """A queue under test; objects of it are made anew in every process."""

    name: str
    appends: bool  # needs `append` in the background
    rereads: bool  # receive cells read the backlog again and again

    def install(self, dsn: str) -> None:
        """Create everything in an empty database."""
        ...

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create the queue and fill in the backlog."""
        ...

    def script(self, cell: Cell, body: str) -> str:
        """What pgbench runs for one message of a scripted cell; `body` is the document as an SQL literal."""
        ...

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """Client number `index` of a cell that sends."""
        ...

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Client number `index` of a cell that receives."""
        ...

    def stored(self, link: Link, cell: Cell) -> int:
        """Messages that the server holds as sent, counted in its tables."""
        ...


def bodies(index: int) -> list[bytes]:
    """The documents that client `index` sends, over and over; other clients send others."""
    return documents(_DOCUMENTS, seed=index + 1)


def chunks(bodies: list[bytes], size: int) -> list[list[bytes]]:
    """Whole batches of `size` documents."""
    return [bodies[at : at + size] for at in range(0, len(bodies) - size + 1, size)]


def runs(ids: Iterable[int]) -> list[Range]:
    """Numbers as ranges of neighbours in lane 0; a repeated number begins a range of its own."""
    found: list[Range] = []
    first = last = None
    for number in sorted(ids):
        if last is not None and first is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            found.append((0, first, last))
        first = last = number
    if first is not None and last is not None:
        found.append((0, first, last))
    return found
