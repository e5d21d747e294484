"""What a client process is asked to do, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from .cells import Cell
from .sides.base import Range

__all__ = ["PACE", "UNCOUNTED", "Job", "Result", "Role", "timed_messages"]

PACE = 1 / 200  # seconds between two messages of a latency cell
UNCOUNTED = 100  # messages at the beginning of a latency cell that warm it up


def timed_messages(cell: Cell) -> int:
    """How many messages a latency cell sends."""
    return round(cell.seconds / PACE) + UNCOUNTED


class Role(StrEnum):
    """What a client process does in one job."""

    PRODUCE = "produce"
    CONSUME = "consume"
    BACKGROUND = "background"  # the appender, or the ticker of PgQ


@dataclass(frozen=True)
class Job:
    """One client's part in one run of a cell."""

    side: str
    role: Role
    cell: Cell
    index: int
    dsn: str
    drain: float = 0.0  # seconds after the measured time in which consumers may empty the queue
    local: str = ""  # the database with the ledger


@dataclass(frozen=True)
class Result:
    """The result of a job. Times are those of the machine's monotonic clock."""

    role: Role
    count: int  # messages inside the measured time
    started: float
    ended: float  # when the last of them was done
    total: int  # all messages, including those of the warm-up and those drained afterwards
    ranges: list[Range] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)  # seconds from send to receipt
