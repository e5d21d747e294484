"""Where the pages show, or mend, what needs attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from mqpg.status import Overview, findings
from mqpg.status.finding import Finding, Row

__all__ = ["OF_WORKERS", "leads"]

OF_WORKERS = ("clock", "connections")
"""Checks that the page of the workers shows."""


def leads(found: Overview, shown: Sequence[Finding], link: Callable[..., str]) -> dict[str, tuple[str, str]]:
    """Find the page of each trouble.

    The sentences stand in one place, `mqpg.status.advice`, and know no pages. What a sentence is
    about is found by asking for the sentences of one row alone.

    Args:
        found: The state of a broker.
        shown: The troubles whose pages are wanted. It looks no further than the last of them.
        link: Makes the address of a page; see `Visit.link`.

    Returns:
        What is said of a trouble -> the words of a link, and its address.
    """
    nothing = Overview(found.broker, [], [], [], [], [], [], [], [], [], [])
    missing = {one.found for one in shown}
    told: dict[str, tuple[str, str]] = {}
    for words, address, part in _parts(found, nothing, link):
        if not missing:
            break
        for one in findings(part):
            if one.found in missing:
                told[one.found] = (words, address)
                missing.remove(one.found)
    return told


def _parts(found: Overview, nothing: Overview, link: Callable[..., str]) -> Iterator[tuple[str, str, Overview]]:
    """Parts of the overview with one row each, and the page of that row. The first has none."""
    yield "Workers", link("workers"), nothing
    for row in found.groups:
        yield *_group(row, link), replace(nothing, groups=[row | {"dead_letters": 0}])
        letters = link("dead-letters", row["consumer_group"], row["topic"])
        yield "Dead letters", letters, replace(nothing, groups=[row])
    for row in found.filters:
        yield *_group(row, link), replace(nothing, filters=[row])
    for row in found.losses:
        yield *_group(row, link), replace(nothing, losses=[row])
    for row in found.half_messages:
        for state, other in (("overdue", "parked"), ("parked", "overdue")):
            address = link("half-messages", state=state, group=row["producer_group"])
            yield f"Half messages that are {state}", address, replace(nothing, half_messages=[row | {other: 0}])
    for one in found.moment:
        words, page = ("Workers", "workers") if one.check in OF_WORKERS else ("Storage", "storage")
        yield words, link(page), replace(nothing, moment=[one])
    stored = replace(nothing, blocked=found.blocked, orphans=found.orphans, foreign_locks=found.foreign_locks)
    yield "Storage", link("storage"), stored


def _group(row: Row, link: Callable[..., str]) -> tuple[str, str]:
    return f"Group {row['consumer_group']}", link("groups", row["consumer_group"], row["topic"])
