"""The result of a run: whether it is a success, the page, and the JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from lab.audits import Audit

from .counts import Counts, Decisions
from .flights import Board, Cell

__all__ = ["Mismatch", "Result", "differing"]

_MOST_MISMATCHES = 10


class Mismatch(NamedTuple):
    """A cell that differs. None means that one side has no such row."""

    origin: str
    day: str
    expected: Cell | None
    shown: Cell | None


def differing(expected: Board, shown: Board) -> list[Mismatch]:
    """The cells that differ, in order of origin and day."""
    pairs = ((place, expected.get(place), shown.get(place)) for place in sorted(expected.keys() | shown.keys()))
    return [Mismatch(*place, left, right) for place, left, right in pairs if left != right]


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that the result page and `--json` show.

    Attributes:
        cells: How many cells the board must have.
        spared: How many planned kills were not carried out.
        crashes: How many processes ended by themselves.
    """

    flights: int
    cancelled: int
    seed: int
    counts: Counts
    decisions: Decisions
    cells: int
    mismatches: list[Mismatch]
    audit: Audit
    kills: Mapping[str, int]
    restarts: int
    spared: int
    crashes: int
    drained: bool
    seconds: float
    flying_seconds: float

    @property
    def counts_match(self) -> bool:
        """Whether every flight ended as in the file, at the airline, the broker and the board."""
        due = self.flights - self.cancelled
        return (
            self.counts.departed == self.decisions.committed == self.counts.shown == due
            and self.counts.cancelled == self.cancelled
        )

    @property
    def ok(self) -> bool:
        """Whether the run proved what it claims, with every kill that was planned."""
        proven = self.audit.verdict == "valid" and not self.mismatches and self.counts_match
        return proven and self.drained and self.spared == 0

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "flights": self.flights,
            "committed": self.decisions.committed,
            "rolled_back": self.counts.cancelled,
            "consumed": self.counts.shown,
            "kills": dict(self.kills),
            "restarts": self.restarts,
            "verdict": self.audit.verdict,
            "anomalies": self.audit.anomalies,
            "sums_match": not self.mismatches,
            "seconds": round(self.seconds, 1),
            "seed": self.seed,
            "ok": self.ok,
            "counts_match": self.counts_match,
            "drained": self.drained,
            "cells": self.cells,
            "mismatches": len(self.mismatches),
            "halves_rolled_back": self.decisions.rolled_back,
            "check_backs": {
                "committed": self.decisions.committed_by_check,
                "rolled_back": self.decisions.rolled_back_by_check,
            },
            "disconnects": 0,
            "spared": self.spared,
            "crashes": self.crashes,
            "flying_seconds": round(self.flying_seconds, 1),
            "audit_seconds": round(self.audit.seconds, 1),
            "server": "embedded PostgreSQL",
            "audit": dict(self.audit.report),
        }

    def show(self, console: Console) -> None:
        """Print the result page."""
        style, word = ("green", "PROVEN") if self.ok else ("red", "NOT PROVEN")
        table = Table(title=f"{self.flights:,} flights, seed {self.seed}", show_header=False, title_justify="left")
        for what, value, good in self._lines():
            table.add_row(what, str(value), style=None if good else "bold red")
        console.print(table)
        for cell in self.mismatches[:_MOST_MISMATCHES]:
            console.print(f"{cell.origin} {cell.day}: {cell.expected} in the file, {cell.shown} on the board")
        console.print(f"[bold reverse {style}] {word} [/]")

    def _lines(self) -> list[tuple[str, object, bool]]:
        due, decisions, counts = self.flights - self.cancelled, self.decisions, self.counts
        checks = f"{decisions.committed_by_check} committed, {decisions.rolled_back_by_check} rolled back"
        rate = self.flights / self.flying_seconds if self.flying_seconds else 0.0
        equal, is_valid = self.cells - len(self.mismatches), self.audit.verdict == "valid"
        return [
            ("departed, rows in the airline's database", f"{counts.departed:,}", counts.departed == due),
            ("committed, half messages at the broker", f"{decisions.committed:,}", decisions.committed == due),
            ("on the board, in a third database", f"{counts.shown:,}", counts.shown == due),
            ("cancelled, rolled back at both", f"{counts.cancelled:,}", counts.cancelled == self.cancelled),
            ("check-backs", checks, True),
            ("drained", "yes" if self.drained else "no", self.drained),
            ("time", f"{self.seconds:.0f} s, {rate:,.0f} flights/s, audit {self.audit.seconds:.0f} s", True),
            *((f"{role} killed", count, True) for role, count in self.kills.items()),
            ("PostgreSQL restarted by immediate shutdown", self.restarts, True),
            ("kills that did not fall", self.spared, not self.spared),
            ("processes that ended by themselves", self.crashes, True),
            ("Spark audit of three databases", f"{self.audit.verdict} {self.audit.anomalies or ''}", is_valid),
            ("cells of the board that equal the file", f"{equal} of {self.cells}", not self.mismatches),
        ]
