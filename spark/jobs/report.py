"""What an audit found, as an object, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from .verdict import Equation, Relation, Verdict

__all__ = ["Report", "as_json"]


@dataclass
class Report:
    """One run: `anomalies` counts every kind in full, `examples` shows some of each."""

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
        """The report as plain values, times in ISO notation."""
        return {
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
            "run": self.run,
            "anomalies": {"total": sum(self.anomalies.values()), "by_kind": self.anomalies, "examples": self.examples},
            "equations": [asdict(one) | {"holds": one.holds} for one in self.equations],
            "relations": [
                asdict(one)
                | {
                    "confirmed_le_consumed": one.first,
                    "confirmed_plus_open_ge_consumed": one.second,
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
    """One JSON object."""
    return json.dumps(report.as_dict(), default=_plain, ensure_ascii=False, indent=2)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
