"""From the counts of the engine's queries to the parts of a report."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from mqpg.audit.report import PURGED, UNATTRIBUTED, NotJudged
from mqpg.audit.timeline import interval_seconds
from mqpg.audit.verdict import Equation, Relation

from .workspace import Workspace

__all__ = ["Totals", "doubts", "equations"]

Rows = list[dict[str, Any]]


class Totals:
    """The counts of one audit, each list in a fixed order."""

    def __init__(self, work: Workspace) -> None:
        """Count.

        Args:
            work: The session with the frames.

        Raises:
            DatabaseError: A query failed.
        """
        self.topics = _sorted(work.rows("totals", "topics"))
        self.groups = _sorted(work.rows("totals", "groups"))
        self.lag = _sorted(work.rows("totals", "lag"))
        self.relations = [Relation(**row) for row in _sorted(work.rows("totals", "relations"))]
        self.latency = [_percentiles(row) for row in _sorted(work.rows("totals", "latency"))]
        self.redelivery = _histograms(work.rows("totals", "redelivery"))
        self.timeline = _timeline(work)
        self.late_commits = _sorted(work.rows("totals", "late_commits"))
        self.left_out = work.rows("totals", "left_out")
        self.holes = work.rows("totals", "holes")[0]["holes"]
        self.doubtful_offsets = work.rows("totals", "doubtful_offsets")
        self.not_judged = [NotJudged(PURGED, **row) for row in _sorted(work.rows("totals", "without_ledger_row"))]
        self.not_judged += [NotJudged(UNATTRIBUTED, **row) for row in _sorted(work.rows("totals", "unattributed"))]


def equations(totals: Totals) -> list[Equation]:
    """Write the conservation equations.

    Args:
        totals: The counts.

    Returns:
        Two equations for each topic, and one for each group and topic.
    """
    found = []
    for row in totals.topics:
        scope = f"topic {row['topic']}"
        decided = {"committed": row["decided_commit"], "rolled back": row["rolled_back"]}
        placed = {"in queues": row["queued"], "waiting for the appender": row["waiting"], "dropped": row["dropped"]}
        found.append(Equation("prepared", scope, row["prepared"], decided | {"undecided": row["undecided"]}))
        found.append(Equation("committed", scope, row["committed"], placed))
    for row in totals.groups:
        parts = {
            "applied": row["applied"],
            "in retry": row["retrying"],
            "dead or skipped": row["dead"],
            "not reached yet": row["ahead"],
        }
        found.append(Equation("offsets", f"group {row['consumer_group']}, topic {row['topic']}", row["offsets"], parts))
    return found


def doubts(
    totals: Totals, incarnation: int, not_judged: list[NotJudged], *, drained: bool, some_judged: bool = False
) -> list[str]:
    """List what keeps the audit from a verdict.

    Args:
        totals: The counts.
        incarnation: The broker's incarnation.
        not_judged: What could not be judged.
        drained: Whether nothing may be left open.
        some_judged: Whether earlier audits have judged a part, so that this one need not read any.

    Returns:
        One sentence for each reason.
    """
    found = [_foreign(row, incarnation) for row in totals.doubtful_offsets]
    if not some_judged and not any(row["sent"] or row["prepared"] or row["queued"] for row in totals.topics):
        found.append("nothing was read: there is no message to audit")
    return found + [f"not judged: {one}" for one in not_judged] + _open_work(totals) if drained else found


def _foreign(row: dict[str, Any], incarnation: int) -> str:
    offsets = f"the offsets of group {row['consumer_group']}"
    if row["foreign_broker"] is not None:
        return f"{offsets} belong to another broker, {row['foreign_broker']}"
    return f"{offsets} come from incarnation {row['incarnation']} of the broker, which is at {incarnation}"


def _open_work(totals: Totals) -> list[str]:
    found = []
    for row in totals.topics:
        if row["waiting"]:
            found.append(f"not drained: {row['waiting']} messages of topic {row['topic']} wait for the appender")
        if row["delayed"]:
            found.append(f"not drained: {row['delayed']} messages of topic {row['topic']} wait for their time")
    found += [
        f"not drained: group {row['consumer_group']} is {row['lag']} messages behind on topic {row['topic']}"
        for row in totals.lag
    ]
    found += [
        f"not drained: {row['retrying']} messages of topic {row['topic']} are in retry "
        f"for group {row['consumer_group']}"
        for row in totals.groups
        if row["retrying"]
    ]
    return found


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def _percentiles(row: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in row.items() if name != "seconds"}
    return rest | dict(zip(("p50", "p95", "p99", "max"), row["seconds"], strict=True))


def _timeline(work: Workspace) -> dict[str, Any]:
    (span,) = work.rows("totals", "ticks_range")
    seconds = interval_seconds(span["first"], span["last"])
    return {"interval_seconds": seconds, "rows": work.rows("totals", "timeline", [seconds])}


def _histograms(rows: Rows) -> Rows:
    grouped: dict[tuple[str, str, str], dict[int, int]] = defaultdict(dict)
    for row in rows:
        grouped[row["what"], row["consumer_group"], row["topic"]][row["value"]] = row["messages"]
    return [
        {"what": what, "consumer_group": group, "topic": topic, "histogram": dict(sorted(histogram.items()))}
        for (what, group, topic), histogram in sorted(grouped.items())
    ]
