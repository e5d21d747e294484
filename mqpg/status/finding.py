"""One thing that was looked at, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LATER", "LOSS", "SOME_WAIT", "STANDS", "Finding", "Row"]

Row = dict[str, Any]

# How urgent a finding is: the smaller, the more urgent.
LOSS = 1  # a group loses messages, or skips what it may want
STANDS = 2  # nothing moves: of the broker, or of a group
SOME_WAIT = 3  # some messages wait while others move
LATER = 4  # it will hurt if it stays


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str  # what was looked at, in a few words
    ok: bool
    found: str
    remedy: str | None = None  # What to do. None: nothing.
    urgency: int = LATER
    # What it is about: `consumer_group`, `topic`, `producer_group`, `message_id`
    about: Mapping[str, str] = field(default_factory=dict)
    look: str | None = None  # The command that shows more. None: there is none.
