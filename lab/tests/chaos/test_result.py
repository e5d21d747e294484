"""The verdict of a run, and its exit status."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lab.audits import Audit
from lab.chaos.judge import Findings
from lab.chaos.result import EXIT_STATUS, Result, RoundResult

NOTHING = Findings({}, {}, 3, {"t1": 3}, {"broker-1": 3}, {"tried": 3}, 0)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
ROUND = RoundResult(1, "kill", ("broker-1",), NOW, 1.5, 4.0, NOW, "")


def _audit(verdict: str) -> Audit:
    report: dict[str, Any] = {"verdict": verdict, "reasons": ["why"], "anomalies": {"by_kind": {"lost": 1, "gap": 0}}}
    return Audit("broker-1", "sql", "drained", 0, report)


SOUND = Result(7, {"rounds": 1}, [ROUND], NOTHING, [_audit("valid")], {}, 0, 0, [])


def test_each_proof_of_a_fault_is_invalid() -> None:
    assert (SOUND.verdict, EXIT_STATUS[SOUND.verdict]) == ("valid", 0)
    faulty = replace(NOTHING, faults={"effect twice": 2}, examples={"effect twice": ["c1 7", "c1 8"]})
    for result in (
        replace(SOUND, findings=faulty),
        replace(SOUND, changes_of_hot_tables=1),
        replace(SOUND, dead_letters=1),
        replace(SOUND, audits=[_audit("invalid"), _audit("valid")]),
    ):
        assert (result.verdict, EXIT_STATUS[result.verdict]) == ("invalid", 1)


def test_what_is_in_doubt_is_unknown_and_a_proof_counts_first() -> None:
    for result in (
        replace(SOUND, left={"broker-1: halves undecided": 1}),
        replace(SOUND, audits=[_audit("unknown")]),
        replace(SOUND, rounds=[replace(ROUND, recovery=None, recovered_at=None)]),
    ):
        assert (result.verdict, EXIT_STATUS[result.verdict]) == ("unknown", 2)
        assert replace(result, dead_letters=1).verdict == "invalid"
