"""What `Client.why` answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
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

    @classmethod
    def from_json(cls, text: str | None) -> Remedy | None:
        """Read what the broker says.

        Args:
            text: An object with `function` and `arguments`, as JSON text, or None.

        Returns:
            The call. None: there is none.
        """
        return None if text is None else cls(**json.loads(text))


@dataclass(frozen=True)
class Cause:
    """Something that holds a message, a half message or a consumer group up.

    Attributes:
        cause: A word that does not change between releases, such as "leased" or "filtered_out".
        raw_detail: The facts, as JSON text.
        raw_remedy: What would move it, as JSON text. None: it ends by itself, or no call ends it.
        at: The server's time at which it was so. None: it is not known.
    """

    cause: str
    raw_detail: str
    raw_remedy: str | None
    at: datetime | None = None

    @cached_property
    def detail(self) -> dict[str, Any]:
        """The facts, such as the consumer group, the queue, times and the pid of a session."""
        found: dict[str, Any] = json.loads(self.raw_detail)
        return found

    @cached_property
    def remedy(self) -> Remedy | None:
        """What would move it. None: it ends by itself, or no call ends it."""
        return Remedy.from_json(self.raw_remedy)

    @property
    def consumer_group(self) -> str | None:
        """The consumer group that it holds up. None: every group, because it has no offset yet."""
        group = self.detail.get("consumer_group")
        return None if group is None else str(group)
