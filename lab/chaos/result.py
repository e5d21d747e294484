"""The result of a run: its verdict, its figures, the page, and what `--json` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from lab.audits import Audit
from lab.command import percentiles
from mqpg.audit.faults import Fault

from .judge import Findings

__all__ = ["EXIT_STATUS", "Result", "RoundResult"]

Verdict = Literal["valid", "invalid", "unknown"]
EXIT_STATUS: Mapping[Verdict, int] = {"valid": 0, "invalid": 1, "unknown": 2}


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round came to.

    Attributes:
        lasted: Seconds until the fault was over and everything was started again.
        recovery: Seconds from then on until every group had moved. None: one did not in time.
        last: The group that was the last to move. Empty: all had moved at once.
    """

    number: int
    kind: str
    nodes: tuple[str, ...]
    at: datetime
    lasted: float
    recovery: float | None
    recovered_at: datetime | None
    last: str
    how: tuple[str, ...] = ()

    def faults(self) -> list[Fault]:
        """The round for the page of the audit."""
        return [Fault(self.at, self.kind, node, self.recovered_at) for node in self.nodes]

    def as_json(self) -> dict[str, Any]:
        """The round for `--json`."""
        return {
            "round": self.number,
            "kind": self.kind,
            "nodes": list(self.nodes),
            "at": self.at.isoformat(timespec="milliseconds"),
            "lasted": round(self.lasted, 2),
            "recovery": None if self.recovery is None else round(self.recovery, 2),
            "last": self.last,
        } | ({"how": list(self.how)} if self.how else {})


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that the result page and `--json` show."""

    seed: int
    options: Mapping[str, Any]
    rounds: Sequence[RoundResult]
    findings: Findings
    audits: Sequence[Audit]
    left: Mapping[str, int]
    changes_of_hot_tables: int
    dead_letters: int
    ended_by_themselves: Sequence[str]
    seconds: Mapping[str, float] = field(default_factory=dict)
    kept: str | None = None
    found_by_faults: Sequence[str] = ()

    @property
    def proven(self) -> list[str]:
        """The faults that are proven, one line each."""
        found = [
            f"{name}: {count:,} ({', '.join(self.findings.examples[name][:3])})"
            for name, count in self.findings.faults.items()
        ]
        if self.changes_of_hot_tables:
            found.append(f"{self.changes_of_hot_tables:,} rows of hot tables were updated or deleted")
        if self.dead_letters:
            found.append(f"{self.dead_letters:,} dead letters, although no handler fails for good")
        found += self.found_by_faults
        return found + [f"{_named(one)}: invalid, {one.anomalies}" for one in self.audits if one.verdict == "invalid"]

    @property
    def doubts(self) -> list[str]:
        """Why the run could not be judged as a whole, one line each."""
        found = [f"{name}: {count:,}" for name, count in self.left.items()]
        found += [
            f"round {one.number} ({one.kind}): {one.last} did not move" for one in self.rounds if one.recovery is None
        ]
        return found + [
            f"{_named(one)}: unknown, {'; '.join(one.report.get('reasons', []))}"
            for one in self.audits
            if one.verdict not in ("valid", "invalid")
        ]

    @property
    def verdict(self) -> Verdict:
        """Invalid if a fault is proven, and unknown if something is in doubt."""
        return "invalid" if self.proven else "unknown" if self.doubts else "valid"

    def recoveries(self) -> dict[str, dict[str, float]]:
        """The seconds of recovery: over all rounds, and by the kind of fault."""
        by_kind: dict[str, list[float]] = {}
        for one in self.rounds:
            if one.recovery is not None:
                by_kind.setdefault("all", []).append(one.recovery)
                by_kind.setdefault(one.kind, []).append(one.recovery)
        return {
            kind: {name: round(value, 1) for name, value in percentiles(found).items()}
            for kind, found in by_kind.items()
        }

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "verdict": self.verdict,
            "seed": self.seed,
            "rounds": len(self.rounds),
            "strikes": dict(Counter(one.kind for one in self.rounds for _ in one.nodes)),
            "messages": self.findings.messages,
            "by_protocol": dict(self.findings.by_protocol),
            "by_broker": dict(self.findings.by_broker),
            "counts": dict(self.findings.counts),
            "repeated_by_c3": self.findings.repeated,
            "recovery_seconds": self.recoveries(),
            "proven": self.proven,
            "doubts": self.doubts,
            "changes_of_hot_tables": self.changes_of_hot_tables,
            "dead_letters": self.dead_letters,
            "ended_by_themselves": list(self.ended_by_themselves),
            "seconds": {name: round(value, 1) for name, value in self.seconds.items()},
            "options": dict(self.options),
            "history": [one.as_json() for one in self.rounds],
            "relations": _overall(self.audits),
            "audits": [
                {
                    "broker": one.broker,
                    "engine": one.engine,
                    "scope": one.scope,
                    "verdict": one.verdict,
                    "seconds": round(one.seconds, 1),
                    "reasons": one.report.get("reasons", []),
                    "relations": _relations(one.report.get("relations", [])),
                }
                for one in self.audits
            ],
        } | ({"kept": self.kept} if self.kept else {})

    def show(self, console: Console) -> None:
        """Print the result page."""
        messages = Table("protocol", "messages")
        for name, count in (*self.findings.by_protocol.items(), ("all", self.findings.messages)):
            messages.add_row(name, f"{count:,}")
        recoveries = Table("recovery after", "p50 s", "p99 s", "max s")
        for kind, values in self.recoveries().items():
            recoveries.add_row(kind, *(f"{value:.1f}" for value in values.values()))
        console.print(f"seed {self.seed}: {len(self.rounds)} rounds", messages, recoveries, sep="\n")
        lines = [*(f"{_named(one)}: {one.verdict}" for one in self.audits), *self.proven, *self.doubts]
        lines += self.ended_by_themselves
        lines += [f"everything remains in {self.kept}"] if self.kept else []
        console.print(*lines, sep="\n", highlight=False, markup=False)
        console.print(f"[bold]{self.verdict}[/bold]")


def _named(one: Audit) -> str:
    return f"audit of {one.broker} by {one.engine} ({one.scope})"


def _relations(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Sum FastMiniMQ's two relations over all ledgers, groups and topics of one audit."""
    names = ("confirmed", "open", "consumed", "missing", "extra")
    relations = ("confirmed_le_consumed", "confirmed_plus_open_ge_consumed")
    return {name: sum(one[name] for one in found) for name in names} | {
        "relations": 2 * len(found),
        "hold": sum(bool(one[name]) for one in found for name in relations),
    }


def _overall(audits: Sequence[Audit]) -> dict[str, int]:
    """Sum the relations over the brokers, by the first drained audit of each."""
    chosen: dict[str, Audit] = {}
    for one in audits:
        if one.scope == "drained":
            chosen.setdefault(one.broker, one)
    total: Counter[str] = Counter()
    for one in chosen.values():
        total.update(_relations(one.report.get("relations", [])))
    return dict(total)
