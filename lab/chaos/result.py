"""The result of a run: its verdict, its figures, and what `--json` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from mqpg.audit.faults import Fault

from .audits import Audit
from .judge import Findings

__all__ = ["EXIT_STATUS", "Result", "RoundResult", "quantile"]

Verdict = Literal["valid", "invalid", "unknown"]
EXIT_STATUS: Mapping[Verdict, int] = {"valid": 0, "invalid": 1, "unknown": 2}


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round came to.

    Attributes:
        number: The round.
        kind: The kind of fault.
        nodes: The nodes that it hit.
        at: When it began.
        lasted: Seconds until the fault was over and everything was started again.
        recovery: Seconds from then on until every group had moved. None: one did not in time.
        recovered_at: When that was. None: as before.
        last: The group that was the last to move. Empty where all had moved at once.
        how: More about it, as in the schedule.
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
        """Return it for the page of the audit."""
        return [Fault(self.at, self.kind, node, self.recovered_at) for node in self.nodes]


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that the result page and `--json` show."""

    seed: int
    command: Mapping[str, Any]
    rounds: Sequence[RoundResult]
    findings: Findings
    audits: Sequence[Audit]
    left: Mapping[str, int]
    changes_of_hot_tables: int
    dead_letters: int
    ended_by_themselves: Sequence[str]
    seconds: Mapping[str, float] = field(default_factory=dict)
    kept: str | None = None
    found_by_strikes: Sequence[str] = ()

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
        found += self.found_by_strikes
        for audit in self.audits:
            if audit.report["verdict"] == "invalid":
                kinds = {kind: n for kind, n in audit.report["anomalies"]["by_kind"].items() if n}
                found.append(f"audit of {audit.broker} by {audit.engine} ({audit.scope}): invalid, {kinds}")
        return found

    @property
    def doubts(self) -> list[str]:
        """Why the run could not be judged as a whole, one line each."""
        found = [f"{name}: {count:,}" for name, count in self.left.items()]
        found += [
            f"round {one.number} ({one.kind}): {one.last} did not move" for one in self.rounds if one.recovery is None
        ]
        for audit in self.audits:
            if audit.report["verdict"] not in ("valid", "invalid"):
                reasons = "; ".join(audit.report.get("reasons", []))
                found.append(f"audit of {audit.broker} by {audit.engine} ({audit.scope}): unknown, {reasons}")
        return found

    @property
    def verdict(self) -> Verdict:
        """Return invalid where a fault is proven, and unknown where something is in doubt."""
        return "invalid" if self.proven else "unknown" if self.doubts else "valid"

    def recoveries(self) -> dict[str, dict[str, float]]:
        """Return the seconds of recovery: over all rounds, and by the kind of fault."""
        by_kind: dict[str, list[float]] = {"all": []}
        for one in self.rounds:
            if one.recovery is not None:
                by_kind["all"].append(one.recovery)
                by_kind.setdefault(one.kind, []).append(one.recovery)
        return {
            kind: {
                "p50": round(quantile(found, 0.5), 1),
                "p99": round(quantile(found, 0.99), 1),
                "max": round(max(found), 1),
            }
            for kind, found in by_kind.items()
            if found
        }

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        strikes = Counter(one.kind for one in self.rounds for _ in one.nodes)
        return {
            "verdict": self.verdict,
            "seed": self.seed,
            "rounds": len(self.rounds),
            "strikes": dict(strikes),
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
            "options": dict(self.command),
            "history": [
                {
                    "round": one.number,
                    "kind": one.kind,
                    "nodes": list(one.nodes),
                    "at": one.at.isoformat(timespec="milliseconds"),
                    "lasted": round(one.lasted, 2),
                    "recovery": None if one.recovery is None else round(one.recovery, 2),
                    "last": one.last,
                }
                | ({"how": list(one.how)} if one.how else {})
                for one in self.rounds
            ],
            "relations": _overall(self.audits),
            "audits": [
                {
                    "broker": audit.broker,
                    "engine": audit.engine,
                    "scope": audit.scope,
                    "verdict": audit.report["verdict"],
                    "seconds": round(audit.seconds, 1),
                    "reasons": audit.report.get("reasons", []),
                    "relations": _relations(audit.report.get("relations", [])),
                }
                for audit in self.audits
            ],
        } | ({"kept": self.kept} if self.kept else {})


def _relations(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Sum FastMiniMQ's two relations over all ledgers, groups and topics of one audit."""
    names = ("confirmed", "open", "consumed", "missing", "extra")
    return {name: sum(one[name] for one in found) for name in names} | {
        "relations": 2 * len(found),
        "hold": sum(
            bool(one[name]) for one in found for name in ("confirmed_le_consumed", "confirmed_plus_open_ge_consumed")
        ),
    }


def _overall(audits: Sequence[Audit]) -> dict[str, int]:
    """Sum the relations over the brokers, by the first drained audit of each."""
    chosen: dict[str, Audit] = {}
    for audit in audits:
        if audit.scope == "drained":
            chosen.setdefault(audit.broker, audit)
    total: Counter[str] = Counter()
    for audit in chosen.values():
        total.update(_relations(audit.report.get("relations", [])))
    return dict(total)


def quantile(values: Sequence[float], q: float) -> float:
    """Return a quantile of some values: the value at that rank.

    Args:
        values: At least one value.
        q: The quantile, 0 to 1.
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(q * (len(ordered) - 1)))]
