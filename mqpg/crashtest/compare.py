"""Comparing what a crash left with what is left without one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from mqpg.crashtest.options import Difference, Outcome
from mqpg.crashtest.snapshot import Row, Snapshot

__all__ = ["compare", "compare_counts", "volatile"]

_LONGEST = 100


def volatile(one: Snapshot, other: Snapshot) -> dict[str, set[str]]:
    """The columns, by table, that differ between two runs without a crash, such as times and random numbers.

    A table whose number of rows differs has all its columns.
    """
    found: dict[str, set[str]] = {}
    for name in one.keys() | other.keys():
        here, there = one.get(name, []), other.get(name, [])
        columns = {column for row in here + there for column in row}
        same = {column for column in columns if _values(here, column) == _values(there, column)}
        if columns - same:
            found[name] = columns - same
    return found


def compare(before: Snapshot, clean: Snapshot, crashed: Snapshot, ignored: dict[str, set[str]]) -> list[Difference]:
    """Say what was lost and what was doubled: at most one difference of each kind for each table.

    Args:
        before: What there was before the work.
        clean: What the work leaves without a crash.
        crashed: What it left here.
        ignored: Columns that are not compared, by table.
    """
    found: list[Difference] = []
    for name in sorted(clean.keys() | crashed.keys()):
        left_out = ignored.get(name, set())
        start, wanted, got = (_counted(one.get(name, []), left_out) for one in (before, clean, crashed))
        missing, extra = list((wanted - got).elements()), list((got - wanted).elements())
        pairs = min(len(missing), len(extra)) if _keeps_rows(wanted, got) else 0
        for lost, put in zip(missing[:pairs], extra[:pairs], strict=True):
            outcome = _direction(list(start), lost, put)
            found.append(Difference(outcome, name, 1, f"{_shown(put)} instead of {_shown(lost)}"))
        for outcome, rows in ((Outcome.LOST, missing[pairs:]), (Outcome.DOUBLED, extra[pairs:])):
            if rows:
                found.append(Difference(outcome, name, len(rows), _shown(rows[0])))
    return found


def compare_counts(clean: Counter[tuple[str, str]], crashed: Counter[tuple[str, str]]) -> list[Difference]:
    """Compare how often each effect outside of databases happened, by kind and name."""
    found = []
    for kind, name in clean | crashed:
        more = crashed[kind, name] - clean[kind, name]
        if more:
            outcome = Outcome.DOUBLED if more > 0 else Outcome.LOST
            times = f"{crashed[kind, name]} times instead of {clean[kind, name]}"
            found.append(Difference(outcome, f"{kind} {name}", abs(more), times))
    return found


def _values(rows: Iterable[Row], column: str) -> list[str]:
    return sorted(json.dumps(row.get(column), default=str, sort_keys=True) for row in rows)


def _counted(rows: Iterable[Row], left_out: set[str]) -> Counter[str]:
    return Counter(
        json.dumps({key: value for key, value in row.items() if key not in left_out}, default=str, sort_keys=True)
        for row in rows
    )


def _keeps_rows(wanted: Counter[str], got: Counter[str]) -> bool:
    """Whether rows differ in their values, and not in their number."""
    return wanted.total() == got.total()


def _direction(start: list[str], wanted: str, got: str) -> Outcome:
    """A value that was changed too far shows a doubled effect, else a lost one."""
    aim, reached = json.loads(wanted), json.loads(got)
    names = [name for name in aim if aim[name] != reached.get(name)]
    same = {name: value for name, value in aim.items() if name not in names}
    rows: list[dict[str, Any]] = [json.loads(row) for row in start]
    origin = next((row for row in rows if all(row.get(name) == value for name, value in same.items())), {})
    for name in names:
        values = (origin.get(name, 0), aim[name], reached.get(name))
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            begin, end, here = values
            if begin != end:
                return Outcome.DOUBLED if (here - end) * (end - begin) > 0 else Outcome.LOST
    return Outcome.DIFFERS


def _shown(row: str) -> str:
    values = json.loads(row)
    text = ", ".join(f"{name}={value}" for name, value in values.items() if value is not None) or "a message"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
