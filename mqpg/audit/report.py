"""What an audit found, as an object and as JSON."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from .verdict import Equation, Relation, Verdict

__all__ = [
    "NO_JOURNAL",
    "NO_LEDGER",
    "NO_SUBSCRIPTION",
    "PURGED",
    "REPORT_VERSION",
    "UNATTRIBUTED",
    "Amounts",
    "NotJudged",
    "Report",
    "SnapshotRecord",
    "as_json",
    "findings_sha256",
    "json_schema",
    "scope_words",
]

REPORT_VERSION = 1
"""The version of the JSON report.

It grows when a field changes its meaning or goes away, not when one is added.
"""

_FINDINGS = (
    "verdict",
    "reasons",
    "scope",
    "parameters",
    "anomalies",
    "equations",
    "relations",
    "not_judged",
    "amounts",
)
_NAMES = 4  # of each kind, in one line


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


@dataclass(frozen=True)
class Amounts:
    """How much the messages are worth that the anomalies of one kind name, each counted once.

    Attributes:
        amount: The sum of the numbers that the jsonpath finds in their payloads.
        messages: How many have such a number.
        without_amount: How many have none.
        without_body: How many have no body at the broker, because retention has dropped it or there never was one.
    """

    amount: Decimal
    messages: int
    without_amount: int
    without_body: int

    def __str__(self) -> str:
        """Return it as a part of a line of the report."""
        others = ((self.without_amount, "without amount"), (self.without_body, "without body"))
        return f"{self.amount:,f} in {self.messages:,} messages" + "".join(f", {n:,} {what}" for n, what in others if n)


@dataclass
class Report:
    """The result of one audit.

    Attributes:
        run: What was read, when, by whom, from where and how fast.
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
        scope: Which topics, groups and messages were audited.
        parameters: What was asked and tolerated, and the release.
        amounts: By kind, how much the messages of the anomalies are worth. Empty if that was not asked.
        changes: What is new since an earlier report, a line each. Empty if there is none to compare with.
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
    scope: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    amounts: dict[str, Amounts] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """The verdict, and how many of the groups it is about if not all could be judged."""
        parts = []
        for name, why in (("groups", NO_JOURNAL), ("producer_groups", NO_LEDGER)):
            if missing := sum(one.what == why for one in self.not_judged):
                every = len(self.scope[name])
                parts.append(f"{every - missing} of {every} {name.replace('_', ' ')}")
        return str(self.verdict) + (f" for {' and '.join(parts)}" if parts else "")

    @property
    def findings_sha256(self) -> str:
        """The SHA-256 of the findings."""
        return findings_sha256(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values. Times are still datetime objects."""
        return {
            "report_version": REPORT_VERSION,
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
            "scope": self.scope,
            "parameters": self.parameters,
            "run": self.run,
            "anomalies": {"total": sum(self.anomalies.values()), "by_kind": self.anomalies, "examples": self.examples},
            "amounts": {kind: asdict(one) for kind, one in self.amounts.items()},
            "changes": self.changes,
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
    found = {"findings_sha256": report.findings_sha256} | report.as_dict()
    return json.dumps(found, default=_plain, ensure_ascii=False, indent=2)


def findings_sha256(report: Mapping[str, Any]) -> str:
    """Hash the findings of a report, given as what its JSON says. Two audits of the same tables give the same hash.

    The evidence of examples is left out: in it each engine writes times in its own way.
    """
    found = {name: report[name] for name in _FINDINGS}
    examples = [{name: row[name] for name in row if name != "evidence"} for row in found["anomalies"]["examples"]]
    found["anomalies"] = found["anomalies"] | {"examples": examples}
    return hashlib.sha256(json.dumps(found, sort_keys=True, default=_plain).encode()).hexdigest()


def scope_words(scope: Mapping[str, Any]) -> str:
    """Say in one line what was audited."""
    words = [f"{name} {_listed(scope[name])}" for name in ("topics", "groups", "ledgers", "journals")]
    span = ""
    if scope["messages"]:
        first, last = (f"{scope[name]:%Y-%m-%d %H:%M:%S}" for name in ("first", "last"))
        span = f" from {first} to {last} UTC"
    return "; ".join([*words, f"{scope['messages']:,} messages{span}", f"{scope['past_retention']:,} past retention"])


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `as_json` returns."""
    text = (importlib.resources.files(__package__) / "report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "") or "none"


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
