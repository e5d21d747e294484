"""What a side of the comparison provides for the driver and its client processes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ..cells import Cell
from ..link import Link
from ..payload import documents

__all__ = [
    "Consumer", "Decider", "Producer", "Range", "Seen", "Side", "Unavailable", "bodies", "chunks", "numbers", "runs",
    "stamped",
]  # fmt: skip

_DOCUMENTS = 2_000

Range = tuple[int, int, int]  # lane, first and last delivered number, both inclusive


_SENT_AT = re.compile(rb'"sent_at": ?([0-9.]+)')


class Unavailable(Exception):
    """A side cannot be installed on this server. The text says why, and is shown in the report."""


class Producer(Protocol):
    """A client that sends. Its statements are prepared when it is created."""

    def step(self) -> int:
        """Send once, or prepare and commit one half; how many messages were sent."""
        ...


class Decider(Protocol):
    """A client of a cell with a ledger: it prepares a half message, and commits it."""

    def prepare(self) -> bytes:
        """Store a half message; the text that names it in the ledger."""
        ...

    def commit(self) -> None:
        """Commit that half message."""
        ...


@dataclass
class Seen:
    """What a consumer received, by the numbers that its queue gives to messages."""

    ranges: list[Range] = field(default_factory=list)
    # Where numbers have gaps. They become ranges at the end.
    ids: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)  # seconds to receipt, in a latency cell

    def note_waits(self, payloads: Iterable[bytes]) -> None:
        """Note how long ago these messages were sent, by the time that `stamped` put into them."""
        now = time.monotonic()
        for payload in payloads:
            if found := _SENT_AT.search(payload):
                self.waits.append(now - float(found[1]))

    def as_ranges(self) -> list[Range]:
        """Everything as ranges. A number that was received twice is in two of them."""
        return self.ranges + runs(self.ids)


class Consumer(Protocol):
    """A client that receives."""

    seen: Seen

    def step(self) -> int:
        """Receive and acknowledge once; how many messages were received."""
        ...

    def wait(self) -> None:
        """In a latency cell: wait until it is worth looking again after an empty receive."""
        ...


class Side(Protocol):
    """A queue under test. Every process has an object of its own."""

    name: str
    background: str  # a query that a client beside the others runs again and again; '' for none
    rereads: bool  # receive cells read the backlog again and again
    most: int  # messages of a receive cell's backlog, so that it is not drained too soon

    def install(self, dsn: str) -> None:
        """Create everything in an empty database.

        Raises:
            Unavailable: The server lacks what it needs.
        """
        ...

    def pause(self, moved: int, took: float) -> float:
        """Seconds between two queries in the background.

        Args:
            moved: What the first one returned.
            took: Its seconds.
        """
        ...

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create the queue and send the backlog."""
        ...

    def script(self, cell: Cell, body: str) -> str:
        """The pgbench script for one message of a scripted cell.

        `body` is the variable of pgbench that holds the document.
        """
        ...

    def producer(self, link: Link, cell: Cell, index: int) -> Producer:
        """Client number `index` of a cell that sends."""
        ...

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Client number `index` of a cell that receives."""
        ...

    def sender(self, link: Link) -> Callable[[bytes], None]:
        """Prepare to send single documents, in a latency cell."""
        ...

    def decider(self, link: Link, cell: Cell, index: int) -> Decider:
        """Client number `index` of a cell with a ledger."""
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


def stamped(body: bytes) -> bytes:
    """The document with the time of now in it, by the machine's monotonic clock."""
    return json.dumps({"sent_at": time.monotonic()}).encode()[:-1] + b", " + body[1:]


def numbers(lane: int, first: int, found: Callable[[int], int], count: int) -> list[Range]:
    """The numbers that `found` gives for rows 0 to count - 1: one range, or one each with gaps."""
    if found(count - 1) - first + 1 == count:
        return [(lane, first, first + count - 1)]
    return [(lane, found(row), found(row)) for row in range(count)]


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
