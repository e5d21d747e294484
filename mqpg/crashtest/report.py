"""The report of a crash test: a table of crash points and outcomes."""

from __future__ import annotations

import json
import sys
from collections import Counter

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mqpg.crashtest.fault_injector import Moment
from mqpg.crashtest.options import Outcome, Result, Tried

__all__ = ["print_json", "print_table"]

_STYLES = {Outcome.ONCE: "green", Outcome.NOT_REACHED: "yellow"}
_PIPED_WIDTH = 120
_LONGEST = 70


def print_json(result: Result) -> None:
    """Print the result as one JSON object on stdout."""
    sys.stdout.write(json.dumps(result.as_dict(), indent=2) + "\n")


def print_table(result: Result) -> None:
    """Print a row for each statement and a column for each moment, then what is wrong."""
    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH, highlight=False)
    columns = (Column("#", justify="right"), "by", Column("statement", overflow="fold"))
    table = Table(*columns, *(str(moment) for moment in Moment))
    rows: dict[tuple[str, int], dict[Moment, Tried]] = {}
    for one in result.tried:
        rows.setdefault((one.point.key, one.point.nth), {})[one.point.moment] = one
    for number, moments in enumerate(rows.values(), 1):
        sent = next(iter(moments.values())).sent
        who = "handler" if sent.by_handler else "mqpg" if sent.ours else "other"
        table.add_row(str(number), who, _short(sent.text), *(_cell(moments.get(moment)) for moment in Moment))
    console.print(table)
    for one in result.tried:
        if one.outcome is not Outcome.ONCE:
            console.print(
                Text(f"{one.outcome} {_phrase(one)}: {'; '.join(one.details) or 'no details'}"), soft_wrap=True
            )
    for line in result.notes:
        console.print(Text(f"note: {line}"), soft_wrap=True)
    for line in result.advice:
        console.print(Text(f"advice: {line}"), soft_wrap=True)
    console.print(_summary(result), soft_wrap=True)


def _phrase(one: Tried) -> str:
    if one.point.moment is Moment.REFUSED:
        return f"after the server refused `{_short(one.sent.text)}`"
    return f"when killed {one.point.moment} `{_short(one.sent.text)}`"


def _summary(result: Result) -> Text:
    counts = Counter(one.outcome for one in result.tried)
    found = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome]) or "nothing to try"
    return Text(f"{result.target}: {len(result.tried)} points, {found}; {result.seconds:.0f} s")


def _cell(tried: Tried | None) -> Text:
    if tried is None:
        return Text("")
    return Text(str(tried.outcome), style=_STYLES.get(tried.outcome, "red"))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
