"""What an audit found, as an object and as JSON."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from .verdict import Equation, Relation, Verdict

__all__ = [
    "NO_JOURNAL",
    "NO_LEDGER",
    "NO_SUBSCRIPTION",
    "PURGED",
    "REPORT_VERSION",
    "UNATTRIBUTED",
    "NotJudged",
    "Report",
    "SnapshotRecord",
    "as_json",
    "json_schema",
]

REPORT_VERSION = 1
"""The version of the JSON report.

It grows when a field changes its meaning or goes away, not when one is added.
"""


@dataclass(frozen=True)
class SnapshotRecord:
    """One snapshot that was read, as the report names it.

    Attributes:
        role: What was read there: positions, consumer, broker, ledger.
        database: The database's name, without a password.
        snapshot: The snapshot as PostgreSQL writes it, or "one transaction".
        taken_at: The database's clock just before the snapshot. For a database other than PostgreSQL it is
            the clock of this machine.
    """

    role: str
    database: str
    snapshot: str
    taken_at: datetime


NO_JOURNAL = "consumer group without a journal"
NO_LEDGER = "producer group without a ledger"
NO_SUBSCRIPTION = "journal of a group without a subscription"
PURGED = "decision that is older than the ledger is kept, without a row in the ledger"
UNATTRIBUTED = "journal row without a subscription, of a group with several"


@dataclass(frozen=True)
class NotJudged:
    """Something in the scope of an audit that it could not judge.

    Attributes:
        what: Why not, in words that also say what it is.
        name: The name of the group or ledger.
        rows: How many rows or messages it concerns. None means that they were not counted.
    """

    what: str
    name: str
    rows: int | None = None

    def __str__(self) -> str:
        """Return it as a line of the report."""
        return f"{self.what}: {self.name}" + ("" if self.rows is None else f" ({self.rows:,})")


@dataclass
class Report:
    """The result of one audit.

    Attributes:
        run: What was read, when, from where and how fast.
        reasons: Why the verdict is so, one line each.
        anomalies: How many anomalies of each kind there are.
        examples: Some anomalies of each kind.
        relations: The relations between ledgers and groups.
        notes: Some of what is worth knowing and no anomaly, such as decisions by hand.
        topics: Counts for each topic.
        groups: Counts for each group and topic.
        lag: How many messages each group has not reached yet.
        redelivery: Histograms of how often messages were applied and attempted.
        latency: Percentiles of each step's duration, in seconds.
        timeline: Counts of messages for each interval of time, and the width of the intervals.
        late_commits: For each topic, how many messages were appended after one with a greater id.
    """

    run: dict[str, Any]
    verdict: Verdict
    reasons: tuple[str, ...]
    anomalies: dict[str, int]
    examples: list[dict[str, Any]]
    equations: list[Equation]
    relations: list[Relation]
    not_judged: list[NotJudged] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    topics: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    lag: list[dict[str, Any]] = field(default_factory=list)
    redelivery: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)
    timeline: dict[str, Any] = field(default_factory=dict)
    late_commits: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values. Times are still datetime objects."""
        return {
            "report_version": REPORT_VERSION,
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
            "run": self.run,
            "anomalies": {"total": sum(self.anomalies.values()), "by_kind": self.anomalies, "examples": self.examples},
            "equations": [asdict(one) | {"holds": one.holds} for one in self.equations],
            "relations": [
                asdict(one)
                | {
                    "confirmed_le_consumed": one.confirmed_le_consumed,
                    "confirmed_plus_open_ge_consumed": one.confirmed_plus_open_ge_consumed,
                    "ids_equal": one.ids_equal,
                }
                for one in self.relations
            ],
            "not_judged": [asdict(one) for one in self.not_judged],
            "notes": self.notes,
            "topics": self.topics,
            "groups": self.groups,
            "lag": self.lag,
            "redelivery": self.redelivery,
            "latency": self.latency,
            "timeline": self.timeline,
            "late_commits": self.late_commits,
        }


def as_json(report: Report) -> str:
    """A report as one JSON object, with times in ISO notation."""
    return json.dumps(report.as_dict(), default=_plain, ensure_ascii=False, indent=2)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `as_json` returns."""
    text = (importlib.resources.files(__package__) / "report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
