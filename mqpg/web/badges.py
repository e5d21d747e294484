"""Marks on the rows of lists: what needs attention there, in a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mqpg.status import Finding, Overview, findings
from mqpg.status.finding import LATER, STANDS

from .leads import lead

__all__ = ["Badge", "badges"]

_WORDS = {"failing messages": "fails", "dead letters": "dead letters", "filter": "filter", "losses": "losses"}
_OF_GROUPS = {STANDS: "stuck", LATER: "paused"}  # by urgency; between them some messages wait


@dataclass(frozen=True)
class Badge:
    """A mark on a row.

    Attributes:
        group: The consumer group that it is about.
        word: What is so, in a word.
        found: What is so, in a sentence.
        address: The page that shows more.
        is_bad: Whether something stands or is lost now.
    """

    group: str
    word: str
    found: str
    address: str
    is_bad: bool


def badges(found: Overview, link: Callable[..., str]) -> dict[tuple[str, str], list[Badge]]:
    """Sort what needs attention by the groups that it is about.

    Args:
        found: The state of the broker.
        link: Makes the address of a page; see `Visit.link`.

    Returns:
        Group and topic -> its marks, the most urgent first, and one of each word.
    """
    known: dict[tuple[str, str], dict[str, Badge]] = {}
    for one in findings(found):
        if "consumer_group" in one.about:
            group, topic = one.about["consumer_group"], one.about["topic"]
            badge = Badge(group, _word(one), one.found, lead(one, link)[1], one.urgency < LATER)
            known.setdefault((group, topic), {}).setdefault(badge.word, badge)
    return {place: list(marks.values()) for place, marks in known.items()}


def _word(one: Finding) -> str:
    return _OF_GROUPS.get(one.urgency, "held up") if one.check == "group" else _WORDS.get(one.check, one.check)
