"""What came of one crash point: the audit, and the comparison with the run without a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.engine import run_audit
from mqpg.audit.verdict import Verdict
from mqpg.crashtest.compare import compare, compare_counts
from mqpg.crashtest.options import Difference, Outcome
from mqpg.crashtest.process_run import MOST_FAILURES, Ran
from mqpg.crashtest.snapshot import Snapshot

__all__ = ["Clean", "audit", "invalid_because", "judge_consumer", "judge_producer"]

_DOUBLED = ("duplicated", "duplicate_send", "phantom", "unconfirmed")
_DEAD = "dead_letter"


@dataclass
class Clean:
    """What there is without a crash.

    Attributes:
        before: Before the work.
        after: After the work.
        ignored: Columns that differ between two runs without a crash, by table.
        outside: How often each effect outside of databases happened.
    """

    before: Snapshot
    after: Snapshot
    ignored: dict[str, set[str]] = field(default_factory=dict)
    outside: Counter[tuple[str, str]] = field(default_factory=Counter)


def audit(dsn: str, group: str | None, applied: dict[str, str]) -> list[Difference]:
    """Audit the drained broker with the SQL engine, and return what is wrong.

    The group None means all. `applied` has the database of the journal of each consumer group.
    """
    groups = (group,) if group else ()
    report = run_audit(AuditOptions(dsn=dsn, drained=True, groups=groups, applied=applied))
    if report.verdict is not Verdict.INVALID:
        return []
    return invalid_because(report.anomalies, report.reasons)


def invalid_because(anomalies: Mapping[str, int], reasons: Iterable[str]) -> list[Difference]:
    """What makes an audit invalid: its anomalies, or else the equations and relations that do not hold.

    Dead letters are none of that: they are compared with those of the run without a crash.
    """
    found = [
        Difference(Outcome.DOUBLED if kind in _DOUBLED else Outcome.LOST, "audit", count, kind)
        for kind, count in anomalies.items()
        if count and kind != _DEAD
    ]
    expected = f"{anomalies.get(_DEAD, 0)} {_DEAD}"
    return found or [Difference(Outcome.DIFFERS, "audit", 1, one) for one in reasons if one != expected]


def judge_consumer(
    clean: Clean, runs: Iterable[Ran], after: Snapshot, audited: list[Difference]
) -> tuple[Outcome, list[str]]:
    """Judge a crash point of a consumer, by the run that was killed and the one that resumed."""
    *_, last = runs = list(runs)
    outside: Counter[tuple[str, str]] = sum((one.outside for one in runs), Counter())
    differences = compare(clean.before, clean.after, after, clean.ignored)
    differences += compare_counts(_uncompared(clean.outside), _uncompared(outside)) + audited
    details = [str(one) for one in differences]
    if last.failed is not None:
        return Outcome.ERROR, [last.failed, *details]
    if last.stuck:
        return Outcome.STUCK, ["not finished in time", *details]
    if len(last.raised) >= MOST_FAILURES:
        return Outcome.ERROR, [f"the handler fails again and again: {last.raised[-1]}", *details]
    return _worst(differences), details


def judge_producer(clean: Clean, runs: Iterable[Ran], after: Snapshot, undecided: int) -> tuple[Outcome, list[str]]:
    """Judge a crash point of a producer: its message and its rows are both there, or neither is.

    `runs` are the run that was killed, and the one that compensated; `undecided` counts half messages that no
    process decides.
    """
    *_, last = runs = list(runs)
    if last.failed is not None:
        return Outcome.ERROR, [last.failed]
    if last.stuck or undecided:
        return Outcome.STUCK, [f"{undecided} half messages stay undecided"] if undecided else ["not finished in time"]
    whole = compare(clean.before, clean.after, after, clean.ignored)
    none = compare(clean.before, clean.before, after, clean.ignored)
    if not whole or not none:
        outside: Counter[tuple[str, str]] = sum((one.outside for one in runs), Counter())
        wanted: Counter[tuple[str, str]] = clean.outside if not whole else Counter()
        differences = compare_counts(_uncompared(wanted), _uncompared(outside))
        return _worst(differences), [str(one) for one in differences]
    messages = [one for one in whole if "messages in topic" in one.where]
    rows = [one for one in whole if "messages in topic" not in one.where]
    if rows and not messages:
        return Outcome.DOUBLED, [f"a message without its business: {rows[0]}"]
    if messages and not rows:
        return Outcome.LOST, [f"the business without its message: {messages[0]}"]
    return _worst(whole), [f"neither all nor nothing: {one}" for one in whole]


def _uncompared(outside: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """The effects whose results are not compared: files below the working directory are."""
    compared = ("file", "SQLite database")
    return Counter({one: count for one, count in outside.items() if one[0] not in compared or one[1].startswith("/")})


def _worst(differences: list[Difference]) -> Outcome:
    for outcome in (Outcome.LOST, Outcome.DOUBLED, Outcome.DIFFERS):
        if any(one.outcome is outcome for one in differences):
            return outcome
    return Outcome.ONCE
