"""From the totals of an engine to equations, doubts and histograms.

The counts come by topic and by consumer group. What they mean stands here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .report import NotJudged
from .verdict import Equation

__all__ = ["equations", "histograms", "holes", "unfinished", "without_messages"]

Rows = list[dict[str, Any]]


def equations(topics: Rows, groups: Rows, ticks: Rows) -> list[Equation]:
    """The conservation equations: two for each topic, one for each group and topic, and one for each tick that lies."""
    found = []
    for row in topics:
        scope = f"topic {row['topic']}"
        decided = {"committed": row["decided_commit"], "rolled back": row["rolled_back"]}
        placed = {"in queues": row["queued"], "waiting for the appender": row["waiting"], "dropped": row["dropped"]}
        found.append(Equation("prepared", scope, row["prepared"], decided | {"undecided": row["undecided"]}))
        found.append(Equation("committed", scope, row["committed"], placed))
    for row in groups:
        parts = {
            "applied": row["applied"],
            "in retry": row["retrying"],
            "dead or skipped": row["dead"],
            "not reached yet": row["ahead"],
        }
        found.append(Equation("offsets", f"group {row['consumer_group']}, topic {row['topic']}", row["offsets"], parts))
    found += [Equation("appended", f"tick {t['tick_id']}", t["messages"], {"in queues": t["appended"]}) for t in ticks]
    return found


def without_messages(topics: Rows) -> list[str]:
    """A sentence of doubt about an audit that has read no message, or nothing."""
    if any(row["sent"] or row["prepared"] or row["queued"] for row in topics):
        return []
    return ["nothing was read: there is no message to audit"]


def unfinished(topics: Rows, groups: Rows, lag: Rows, not_judged: Iterable[NotJudged]) -> list[str]:
    """List, a sentence each, what is open although nothing may be.

    `lag` has the groups that are behind, with the number of messages.
    """
    found = [f"not judged: {one}" for one in not_judged]
    for row in topics:
        for name, what in (("waiting", "wait for the appender"), ("delayed", "wait for their time")):
            if row[name]:
                found.append(f"not drained: {row[name]} messages of topic {row['topic']} {what}")
    found += [
        f"not drained: group {row['consumer_group']} is {row['lag']} messages behind on topic {row['topic']}"
        for row in lag
    ]
    found += [
        f"not drained: {row['retrying']} messages of topic {row['topic']} are in retry "
        f"for group {row['consumer_group']}"
        for row in groups
        if row["retrying"]
    ]
    return found


def histograms(rows: Rows) -> Rows:
    """Group the numbers of deliveries and attempts, rows of (what, consumer_group, topic, value, messages).

    Returns one row for each of the first three, with a histogram of messages by value.
    """
    grouped: dict[tuple[str, str, str], dict[int, int]] = defaultdict(dict)
    for row in rows:
        grouped[row["what"], row["consumer_group"], row["topic"]][row["value"]] = row["messages"]
    return [
        {"what": what, "consumer_group": group, "topic": topic, "histogram": dict(sorted(histogram.items()))}
        for (what, group, topic), histogram in sorted(grouped.items())
    ]


def holes(count: int) -> Rows:
    """The row of what was left out because of holes between batch ids; nothing if there is none.

    A transaction that rolled back leaves such a hole too, so it is no anomaly.
    """
    why = "batch ids without a row (rolled back, or deleted)"
    return [{"topic": None, "consumer_group": None, "why": why, "back": False, "offsets": count}] if count else []
