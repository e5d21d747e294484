"""What a side of the comparison provides for the driver and its client processes."""

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

Range = tuple[int, int, int]  # lane, first and last delivered number, both inclusive


class Producer(Protocol):
    """A client that sends. Its statements are prepared when it is created."""

    def step(self) -> int:
        """Send once, or prepare and commit one half; how many messages were sent."""
        ...


@dataclass
class Seen:
    """What a consumer received, by the numbers that its queue gives to messages."""

    ranges: list[Range] = field(default_factory=list)
    # Where numbers have gaps. They become ranges at the end.
    ids: list[int] = field(default_factory=list)

    def as_ranges(self) -> list[Range]:
        """Everything as ranges. A number that was received twice is in two of them."""
        return self.ranges + runs(self.ids)


class Consumer(Protocol):
    """A client that receives."""

    seen: Seen

    def step(self) -> int:
        """Receive and acknowledge once; how many messages were received."""
        ...


class Side(Protocol):
    """A queue under test. Every process has an object of its own."""

    name: str
    appends: bool  # needs `append` in the background
    rereads: bool  # receive cells read the backlog again and again

    def install(self, dsn: str) -> None:
        """Create everything in an empty database."""
        ...

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create the queue and send the backlog."""
        ...

    def script(self, cell: Cell, body: str) -> str:
        """The pgbench script for one message of a scripted cell.

        `body` is the document as an SQL literal.
        """
        ...

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """Client number `index` of a cell that sends."""
        ...

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Client number `index` of a cell that receives."""
        ...

    def stored(self, link: Link, cell: Cell) -> int:
        """Count in the server's tables the messages that were sent."""
        ...


def bodies(index: int) -> list[bytes]:
    """The documents that client `index` sends again and again. Every client has other ones."""
    return documents(_DOCUMENTS, seed=index + 1)


def chunks(bodies: list[bytes], size: int) -> list[list[bytes]]:
    """Split into whole batches of `size` documents."""
    return [bodies[at : at + size] for at in range(0, len(bodies) - size + 1, size)]


def runs(ids: Iterable[int]) -> list[Range]:
    """Join neighbouring numbers to ranges in lane 0. A repeated number begins a new range."""
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
