"""Links to the pages that show, or mend, what needs attention or holds something up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mqpg.status import Finding, Overview, findings
from mqpg.status.finding import LATER, STANDS
from mqpg.values.cause import Cause

__all__ = ["OF_WORKERS", "Badge", "badges", "link_of_cause", "link_of_finding"]

OF_WORKERS = ("worker", "clock", "connections")
"""Checks that the page of the workers shows."""

_SHOWN_BY_WORKERS = (*OF_WORKERS, "failing worker", "ended session", "ledger")  # in what they report
_CAUSES_OF_WORKERS = ("appender_not_running", "compensator_not_running", "ledger_not_served", "ledger_unreachable")
_WORDS = {"failing messages": "fails", "dead letters": "dead letters", "filter": "filter", "losses": "losses"}
_OF_GROUPS = {STANDS: "stuck", LATER: "paused"}  # by urgency; between them some messages wait


def link_of_finding(one: Finding, link: Callable[..., str]) -> tuple[str, str]:
    """The words of a link to the page of what was found, and its address."""
    about = one.about
    if one.check.endswith("half messages"):
        state = one.check.partition(" ")[0]
        address = link("half-messages", state=state, group=about.get("producer_group"))
        return f"Half messages that are {state}", address
    if one.check == "full groups":
        return "Half messages", link("half-messages", group=about["producer_group"])
    if "message_id" in about:
        return f"Message {about['message_id']}", link("messages", about["message_id"])
    if "consumer_group" in about:
        return _of_group(about["consumer_group"], about["topic"], one.check == "dead letters", link)
    if one.check == "size" and "topic" in about:
        return f"Topic {about['topic']}", link("topics", about["topic"])
    return _of_workers(link) if one.check in _SHOWN_BY_WORKERS else ("Storage", link("storage"))


def link_of_cause(cause: Cause, topic: str | None, link: Callable[..., str]) -> tuple[str, str] | None:
    """The words of a link to the page of what holds something up, and its address. None: no page shows more."""
    if cause.cause in _CAUSES_OF_WORKERS:
        return _of_workers(link)
    if cause.cause in ("topic_paused", "no_group") and topic is not None:
        return f"Topic {topic}", link("topics", topic)
    if cause.consumer_group is None or topic is None or cause.cause == "not_subscribed":
        return None
    return _of_group(cause.consumer_group, topic, cause.cause == "dead_letter", link)


def _of_group(group: str, topic: str, is_dead: bool, link: Callable[..., str]) -> tuple[str, str]:
    if is_dead:
        return "Dead letters", link("dead-letters", group, topic)
    return f"Group {group}", link("groups", group, topic)


def _of_workers(link: Callable[..., str]) -> tuple[str, str]:
    return "Workers", link("workers")


@dataclass(frozen=True)
class Badge:
    """A mark on the row of a group in a list."""

    group: str
    word: str  # what is so, in a word
    found: str  # what is so, in a sentence
    address: str  # the page that shows more
    is_bad: bool  # whether something stands or is lost now


def badges(found: Overview, link: Callable[..., str]) -> dict[tuple[str, str], list[Badge]]:
    """Group and topic -> what needs attention there, the most urgent first, and one badge of each word."""
    known: dict[tuple[str, str], dict[str, Badge]] = {}
    for one in findings(found):
        if "consumer_group" in one.about:
            group, topic = one.about["consumer_group"], one.about["topic"]
            badge = Badge(group, _word(one), one.found, link_of_finding(one, link)[1], one.urgency < LATER)
            known.setdefault((group, topic), {}).setdefault(badge.word, badge)
    return {place: list(marks.values()) for place, marks in known.items()}


def _word(one: Finding) -> str:
    return _OF_GROUPS.get(one.urgency, "held up") if one.check == "group" else _WORDS.get(one.check, one.check)
