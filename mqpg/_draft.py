"""A message as its producer describes it, before a broker has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mqpg.message import Interval

__all__ = ["Draft"]


@dataclass(frozen=True, slots=True)
class Draft:
    """Topic, payload and options of one message."""

    topic: str
    payload: Any
    key: str | None = None
    tag: str | None = None
    headers: Any = None
    delay: Interval | None = None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `send` and `prepare`."""
        return {"key": self.key, "tag": self.tag, "headers": self.headers, "delay": self.delay}
