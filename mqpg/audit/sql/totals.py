"""From the counts of the engine's queries to the parts of a report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mqpg.audit.conclusions import histograms
from mqpg.audit.report import NO_JOURNAL, PURGED, UNATTRIBUTED, NotJudged
from mqpg.audit.verdict import Relation

from .workspace import Workspace

__all__ = ["Totals", "doubts", "interval_seconds"]

Rows = list[dict[str, Any]]

_MOST = 120
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)


class Totals:
    """The counts of one audit, each list in a fixed order."""

    def __init__(self, work: Workspace) -> None:
        self.topics = _sorted(work.rows("totals", "topics"))
        self.groups = _sorted(work.rows("totals", "groups"))
        self.lag = _sorted(work.rows("totals", "lag"))
        self.relations = [Relation(**row) for row in _sorted(work.rows("totals", "relations"))]
        self.latency = _sorted(work.rows("totals", "latency"))
        self.redelivery = histograms(work.rows("totals", "redelivery"))
        self.timeline = _timeline(work)
        self.late_commits = _sorted(work.rows("totals", "late_commits"))
        self.scope = _scope(work)
        self.left_out = work.rows("totals", "left_out")
        self.ticks = work.rows("totals", "ticks", [8])
        self.holes = work.rows("totals", "holes")[0]["holes"]
        self.doubtful_offsets = work.rows("totals", "doubtful_offsets")
        self.doubtful_jumps = work.rows("totals", "doubtful_jumps")
        self.not_judged = [NotJudged(NO_JOURNAL, **row) for row in _sorted(work.rows("totals", "without_journal"))]
        self.not_judged += [NotJudged(PURGED, **row) for row in _sorted(work.rows("totals", "without_ledger_row"))]
        self.not_judged += [NotJudged(UNATTRIBUTED, **row) for row in _sorted(work.rows("totals", "unattributed"))]


def doubts(totals: Totals, incarnation: int) -> list[str]:
    """List the offsets and losses that keep the audit from a verdict, a sentence each."""
    found = [_foreign(row, incarnation) for row in totals.doubtful_offsets]
    return found + [
        f"group {row['consumer_group']} lost {row['offsets']} offsets of topic {row['topic']} by a policy "
        f"({row['why']}), and whether the topic had it then is not recorded"
        for row in totals.doubtful_jumps
    ]


def interval_seconds(first: datetime | None, last: datetime | None) -> int:
    """Choose the width of the intervals, a round number of seconds, so that there are at most 120 of them.

    `first` and `last` are None if there is nothing to show.
    """
    span = 0.0 if first is None or last is None else (last - first).total_seconds()
    fitting = (width for width in _WIDTHS if span / width < _MOST)
    return next(fitting, 86400 * (int(span / 86400 / _MOST) + 1))


def _foreign(row: dict[str, Any], incarnation: int) -> str:
    offsets = f"the offsets of group {row['consumer_group']}"
    if row["foreign_broker"] is not None:
        return f"{offsets} belong to another broker, {row['foreign_broker']}"
    return f"{offsets} come from incarnation {row['incarnation']} of the broker, which is at {incarnation}"


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def _scope(work: Workspace) -> dict[str, Any]:
    (found,) = work.rows("totals", "scope")
    moments = {name: found[name] and datetime.fromtimestamp(found[name], UTC) for name in ("first", "last")}
    return found | moments


def _timeline(work: Workspace) -> dict[str, Any]:
    (span,) = work.rows("totals", "ticks_range")
    seconds = interval_seconds(span["first"], span["last"])
    rows = work.rows("totals", "timeline", [seconds])
    return {"interval_seconds": seconds, "rows": [row | {"at": datetime.fromtimestamp(row["at"], UTC)} for row in rows]}
