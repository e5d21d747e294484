"""Where the pages show, or mend, what needs attention or holds something up."""

from __future__ import annotations

from collections.abc import Callable

from mqpg.status import Finding
from mqpg.values.cause import Cause

__all__ = ["OF_WORKERS", "lead", "lead_of_cause"]

OF_WORKERS = ("worker", "clock", "connections")
"""Checks that the page of the workers shows."""

_CAUSES_OF_WORKERS = ("appender_not_running", "compensator_not_running", "ledger_not_served", "ledger_unreachable")


def lead(one: Finding, link: Callable[..., str]) -> tuple[str, str]:
    """Find the page of a trouble.

    Args:
        one: What was found.
        link: Makes the address of a page; see `Visit.link`.

    Returns:
        The words of a link, and its address.
    """
    about = one.about
    if one.check.endswith("half messages"):
        state = one.check.partition(" ")[0]
        address = link("half-messages", state=state, group=about.get("producer_group"))
        return f"Half messages that are {state}", address
    if "message_id" in about:
        return f"Message {about['message_id']}", link("messages", about["message_id"])
    if "consumer_group" in about:
        return _of_group(about["consumer_group"], about["topic"], one.check == "dead letters", link)
    return _of_workers(link) if one.check in OF_WORKERS else ("Storage", link("storage"))


def lead_of_cause(cause: Cause, topic: str | None, link: Callable[..., str]) -> tuple[str, str] | None:
    """Find the page of what holds something up.

    Args:
        cause: What holds it up.
        topic: The name of its topic. None: it is not known.
        link: Makes the address of a page; see `Visit.link`.

    Returns:
        The words of a link, and its address. None: no page shows more.
    """
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
