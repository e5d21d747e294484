"""What a side of the comparison provides for the driver and its client processes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import cycle, pairwise

from ..cells import Cell, Kind
from ..client import Link, array, bodies

__all__ = ["Consumer", "Range", "Seen", "Side", "Step", "Unavailable", "ranges_of", "stamped"]

Range = tuple[int, int, int]  # queue, first and last delivered number, both inclusive
Step = Callable[[], int]  # does one thing, and returns how many messages that were

_SENT_AT = re.compile(rb'"sent_at": ?([0-9.]+)')
_POLL = 0.005  # seconds between two looks for messages, in a latency cell


class Unavailable(Exception):
    """A side cannot be installed on this server. The text says why, and is shown in the report."""


@dataclass
class Seen:
    """What a consumer received, by the numbers that its queue gives to messages."""

    ranges: list[Range] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)  # numbers with gaps
    waits: list[float] = field(default_factory=list)  # seconds to receipt, in a latency cell

    def note_waits(self, payloads: Iterable[bytes]) -> None:
        """Note how long ago these messages were sent, by the time that `stamped` put into them."""
        now = time.monotonic()
        self.waits += [now - float(found[1]) for payload in payloads if (found := _SENT_AT.search(payload))]

    def as_ranges(self) -> list[Range]:
        """Everything as ranges. A number that was received twice is in two of them."""
        return self.ranges + ranges_of(self.ids)


class Consumer:
    """A client that receives."""

    def __init__(self, link: Link, cell: Cell) -> None:
        self.link, self.seen = link, Seen()
        self.timed = cell.kind is Kind.LATENCY
        self.most = 100 if self.timed else cell.receive or cell.batch  # messages at once

    def step(self) -> int:
        """Receive and acknowledge once; how many messages were received."""
        raise NotImplementedError

    def wait(self) -> None:
        """In a latency cell: wait until it is worth looking again after an empty receive."""
        time.sleep(_POLL)


class Side:
    """A queue under test. Every process has an object of its own.

    Attributes:
        background: A query that a client beside the others runs again and again; '' for none.
        rereads: Whether receive cells read the backlog again and again.
        most: Messages of a receive cell's backlog, so that it is not drained too soon.
    """

    name = ""
    oid = 0
    one = ""
    background = ""
    rereads = False
    most = 200_000

    def install(self, dsn: str) -> None:
        """Create everything in an empty database."""
        raise NotImplementedError

    def encode(self, body: bytes) -> bytes:
        """A document in the binary form of its type."""
        return body

    def pause(self, moved: int, took: float) -> float:
        """Seconds between two queries in the background: the first returned `moved` after `took`."""
        return 0.0

    def set_up(self, link: Link, cell: Cell, backlog: int) -> None:
        """Create the queue and send the backlog."""
        raise NotImplementedError

    def script(self, cell: Cell, body: str) -> str:
        """The pgbench script for one message; `body` is the variable that holds the document."""
        raise NotImplementedError

    def producer(self, link: Link, cell: Cell, index: int) -> Step:
        """Client number `index` of a cell that sends, or that prepares and commits halves."""
        raise NotImplementedError

    def consumer(self, link: Link, cell: Cell, index: int) -> Consumer:
        """Client number `index` of a cell that receives."""
        raise NotImplementedError

    def stored(self, link: Link, cell: Cell) -> int:
        """Count in the server's tables the messages that were sent."""
        raise NotImplementedError

    def sender(self, link: Link) -> Callable[[bytes], object]:
        """Prepare to send single documents, in a latency cell."""
        link.prepare("one", self.one)
        return lambda body: link.run(b"one", [self.encode(body)])

    def batches(self, index: int, size: int) -> cycle[bytes]:
        """Arrays of so many documents of client `index`, again and again."""
        found = [self.encode(body) for body in bodies(index)]
        whole = range(0, len(found) - size + 1, size)
        return cycle([array(found[at : at + size], self.oid) for at in whole])

    def sends(self, link: Link, cell: Cell, index: int, statement: str) -> Step:
        """A step that sends a batch."""
        link.prepare("send", statement)
        batches = self.batches(index, cell.batch)

        def step() -> int:
            link.run(b"send", [next(batches)])
            return cell.batch

        return step


def stamped(body: bytes) -> bytes:
    """The document with the time of now in it, by the machine's monotonic clock."""
    return json.dumps({"sent_at": time.monotonic()}).encode()[:-1] + b", " + body[1:]


def ranges_of(ids: Iterable[int], queue: int = 0) -> list[Range]:
    """Join neighbouring numbers to ranges. A repeated number begins a new range."""
    ordered = sorted(ids)
    breaks = [0, *(at for at, (one, other) in enumerate(pairwise(ordered), 1) if other != one + 1), len(ordered)]
    return [(queue, ordered[first], ordered[end - 1]) for first, end in pairwise(breaks) if end > first]
