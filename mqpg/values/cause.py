"""What `Client.why` answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Cause", "Remedy"]


@dataclass(frozen=True)
class Remedy:
    """A call that would move something. `mqpg.values.remedies` writes it as a statement or command.

    Attributes:
        function: The name of a function in the schema mqpg.
        arguments: Its arguments by name. One that is None is for you to choose.
    """

    function: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Cause:
    """Something that holds a message, a half message or a consumer group up.

    Attributes:
        cause: A word that does not change between releases, such as "leased" or "filtered_out".
        detail: The facts, such as the consumer group, the queue, times and the pid of a session.
        remedy: What would move it. None: it ends by itself, or no call ends it.
        at: The server's time at which it was so. None: it is not known.
    """

    cause: str
    detail: dict[str, Any]
    remedy: Remedy | None = None
    at: datetime | None = None

    @classmethod
    def from_json(cls, cause: str, detail: str, remedy: str | None, at: datetime) -> Cause:
        """Make a cause of a row of `mqpg.why`, whose detail and remedy are JSON text."""
        return cls(cause, json.loads(detail), None if remedy is None else Remedy(**json.loads(remedy)), at)

    @property
    def consumer_group(self) -> str | None:
        """The consumer group that it holds up. None: every group, because it has no offset yet."""
        group = self.detail.get("consumer_group")
        return None if group is None else str(group)
