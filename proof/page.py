"""Writes results into docs/testing/proof.md: a table of cases, and diagrams of counterexamples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from spin import Result

__all__ = ["write"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "testing" / "proof.md"
_LINE = re.compile(r"^([\w ]+) (->>|--x) ([\w ]+): (.*)$")


def write(results: Sequence[Result]) -> None:
    """Replace the text between the markers of docs/testing/proof.md.

    Args:
        results: The results of all cases, in the order of the table.
    """
    text = PAGE.read_text()
    text = _replace(text, "results", "\n".join(_table(results)))
    for result in results:
        if result.case.fails:
            text = _replace(text, result.case.name, "\n".join(_diagram(result.trail)))
    PAGE.write_text(text)


def _replace(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    head, marker, rest = text.partition(begin)
    if not marker or end not in rest:
        raise SystemExit(f"{PAGE}: markers {begin.strip()} and {end} are missing")
    return f"{head}{begin}{content}\n{end}{rest.partition(end)[2]}"


def _table(results: Sequence[Result]) -> Iterator[str]:
    yield "| case | producers × checkers | states | seconds | result |"
    yield "|---|---|---|---|---|"
    for result in results:
        case = result.case
        said = f"{case.found}, as it must be" if case.fails else "holds in every state"
        size = "×".join(map(str, case.size))
        yield f"| `{case.name}`: {case.what} | {size} | {result.states:,} | {result.seconds:.1f} | {said} |"


def _diagram(trail: Sequence[str]) -> Iterator[str]:
    steps = [match.groups() for line in trail if (match := _LINE.match(line))]
    yield "```mermaid"
    yield "sequenceDiagram"
    yield "    autonumber"
    for name in dict.fromkeys(name for step in steps for name in (step[0], step[2])):
        yield f"    participant {name.replace(' ', '')} as {name}"
    for sender, arrow, receiver, what in steps:
        yield f"    {sender.replace(' ', '')}{arrow}{receiver.replace(' ', '')}: {what}"
    yield "```"
