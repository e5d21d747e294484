"""What `mqpg crashtest` tries, and the words in which it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from mqpg.crashtest.fault_injector import Point, Sent
from mqpg.values.errors import Error

__all__ = ["CannotTry", "Difference", "Options", "Outcome", "Result", "Tried"]


class CannotTry(Error):
    """The code cannot be tried: it fails without a crash, or nothing reaches it."""


class Outcome(StrEnum):
    """What came of a crash point."""

    ONCE = "once"
    LOST = "lost"
    DOUBLED = "doubled"
    DIFFERS = "differs"
    STUCK = "stuck"
    ERROR = "error"
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Options:
    """What one crash test tries.

    Attributes:
        target: `module:name` of a consumer, or of a function that produces.
        dsn: A server whose user may create databases. None means an embedded server.
        setups: SQL files, and `module:function` of functions, that make the tables of the user.
        messages: The payloads for the consumer, as JSON text.
        databases: Variables of the environment that get the address of a second scratch database,
            each with the driver in its URL, or None for a libpq URL.
        files: Files to copy into the working directory.
        points: The most crash points to try.
        jobs: How many crash points are tried at the same time.
        patience: Seconds until a run counts as stuck.
        modules: The folder in which modules are found.
    """

    target: str
    dsn: str | None = None
    setups: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    databases: dict[str, str | None] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    points: int = 200
    jobs: int = 2
    patience: float = 30.0
    modules: str = "."


@dataclass(frozen=True)
class Difference:
    """What differs from the run without a crash.

    Attributes:
        outcome: Lost, doubled or differs.
        where: The table, file or kind of effect.
        rows: How many rows or effects.
        example: One of them, in words.
    """

    outcome: Outcome
    where: str
    rows: int
    example: str

    def __str__(self) -> str:
        """Return it as a line of the report."""
        return f"{self.where}: {self.rows} {self.outcome}, for instance {self.example}"


@dataclass(frozen=True)
class Tried:
    """One crash point and what came of it."""

    point: Point
    sent: Sent
    outcome: Outcome
    details: tuple[str, ...] = ()


@dataclass
class Result:
    """What a crash test found.

    Attributes:
        kind: consumer or producer.
        statements: What the process sent in the run without a crash.
        left_out: How many crash points were not tried.
        notes: What a reader must know about the result.
        advice: What is probably wrong, and what to do.
    """

    target: str
    kind: str
    statements: list[Sent]
    tried: list[Tried] = field(default_factory=list)
    left_out: int = 0
    notes: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def status(self) -> int:
        """The exit status: 0 if every point came out once, 2 if one could not be tried, else 1."""
        found = {one.outcome for one in self.tried}
        if found <= {Outcome.ONCE}:
            return 0 if found else 2
        return 2 if found <= {Outcome.ONCE, Outcome.NOT_REACHED} else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON."""
        return {
            "target": self.target,
            "kind": self.kind,
            "status": self.status,
            "outcomes": {str(one): sum(t.outcome is one for t in self.tried) for one in Outcome},
            "points": [
                {
                    "statement": one.sent.text,
                    "nth": one.point.nth,
                    "by": "handler" if one.sent.by_handler else "mqpg",
                    "moment": str(one.point.moment),
                    "outcome": str(one.outcome),
                    "details": list(one.details),
                }
                for one in self.tried
            ],
            "left_out": self.left_out,
            "notes": self.notes,
            "advice": self.advice,
            "seconds": round(self.seconds, 1),
        }
