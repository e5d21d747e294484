"""What `Client.why` answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = ["Cause"]


@dataclass(frozen=True)
class Cause:
    """Something that holds a message, a half message or a consumer group up.

    Attributes:
        cause: A word that does not change between releases, such as "leased" or "filtered_out".
        raw_detail: The facts, as JSON text.
        remedy: A sentence that says what would move it, in the words of SQL.
    """

    cause: str
    raw_detail: str
    remedy: str

    @cached_property
    def detail(self) -> dict[str, Any]:
        """The facts, such as the consumer group, the queue, times and the pid of a session."""
        found: dict[str, Any] = json.loads(self.raw_detail)
        return found

    @property
    def consumer_group(self) -> str | None:
        """The consumer group that it holds up. None: every group, because it has no offset yet."""
        group = self.detail.get("consumer_group")
        return None if group is None else str(group)
