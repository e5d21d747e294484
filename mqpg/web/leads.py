"""Where the pages show, or mend, what needs attention."""

from __future__ import annotations

from collections.abc import Callable

from mqpg.status import Finding

__all__ = ["OF_WORKERS", "lead"]

OF_WORKERS = ("worker", "clock", "connections")
"""Checks that the page of the workers shows."""


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
        group, topic = about["consumer_group"], about["topic"]
        if one.check == "dead letters":
            return "Dead letters", link("dead-letters", group, topic)
        return f"Group {group}", link("groups", group, topic)
    return ("Workers", link("workers")) if one.check in OF_WORKERS else ("Storage", link("storage"))
