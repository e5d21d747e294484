"""What an audit found, as an object and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from .verdict import Equation, Relation, Verdict

__all__ = ["Report", "as_json"]


@dataclass
class Report:
    """The result of one audit.

    Attributes:
        run: What was read, when, from where and how fast.
        verdict: The verdict.
        reasons: Its reasons, one line each.
        anomalies: How many anomalies of each kind there are.
        examples: Some anomalies of each kind.
        equations: The conservation equations.
        relations: The relations between ledgers and groups.
        topics: Counts for each topic.
        groups: Counts for each group and topic.
        lag: How many messages each group has not reached yet.
        redelivery: Histograms of how often messages were applied and attempted.
        latency: Percentiles of each step's duration, in seconds.
    """

    run: dict[str, Any]
    verdict: Verdict
    reasons: tuple[str, ...]
    anomalies: dict[str, int]
    examples: list[dict[str, Any]]
    equations: list[Equation]
    relations: list[Relation]
    topics: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    lag: list[dict[str, Any]] = field(default_factory=list)
    redelivery: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values. Times are still datetime objects."""
        return {
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
            "topics": self.topics,
            "groups": self.groups,
            "lag": self.lag,
            "redelivery": self.redelivery,
            "latency": self.latency,
        }


def as_json(report: Report) -> str:
    """Return a report as one JSON object, with times in ISO notation.

    Args:
        report: The report.

    Returns:
        The text.
    """
    return json.dumps(report.as_dict(), default=_plain, ensure_ascii=False, indent=2)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
