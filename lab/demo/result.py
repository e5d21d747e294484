"""The result of a run, and whether it is a success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .expected import Mismatch
from .measure import Decisions

__all__ = ["Audit", "Result"]


@dataclass(frozen=True, slots=True)
class Audit:
    """What the audit reported. `report` is its whole JSON object."""

    verdict: str  # valid | invalid | unknown
    anomalies: Mapping[str, int]  # kind -> number; kinds without an anomaly are omitted
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that the result page and `--json` show."""

    flights: int
    cancelled: int  # in the file
    seed: int
    server: str
    departed: int  # rows in the airline's table
    rolled_back: int  # cancelled flights whose transaction and half message were rolled back
    consumed: int  # departures on the board
    decisions: Decisions
    cells: int
    mismatches: list[Mismatch]
    audit: Audit
    kills: Mapping[str, int]
    restarts: int
    disconnects: int
    spared: int  # strikes that were planned and not carried out
    crashes: int
    drained: bool
    seconds: float
    flying_seconds: float
    audit_seconds: float
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def sums_match(self) -> bool:
        """Whether the board equals the file in every cell."""
        return not self.mismatches

    @property
    def counts_match(self) -> bool:
        """Whether every flight ended as in the file, at the airline, the broker and the board."""
        due = self.flights - self.cancelled
        return self.departed == self.decisions.committed == self.consumed == due and self.rolled_back == self.cancelled

    @property
    def ok(self) -> bool:
        """Whether the run proved what it claims, with every strike that was planned."""
        return (
            self.audit.verdict == "valid"
            and self.sums_match
            and self.counts_match
            and self.drained
            and self.spared == 0
        )

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "flights": self.flights,
            "committed": self.decisions.committed,
            "rolled_back": self.rolled_back,
            "consumed": self.consumed,
            "kills": dict(self.kills),
            "restarts": self.restarts,
            "verdict": self.audit.verdict,
            "anomalies": dict(self.audit.anomalies),
            "sums_match": self.sums_match,
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
            "disconnects": self.disconnects,
            "spared": self.spared,
            "crashes": self.crashes,
            "flying_seconds": round(self.flying_seconds, 1),
            "audit_seconds": round(self.audit_seconds, 1),
            "server": self.server,
            "audit": dict(self.audit.report),
            **({"kept": dict(self.kept)} if self.kept else {}),
        }
