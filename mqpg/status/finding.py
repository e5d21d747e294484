"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Finding", "Row"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at, in one or two words.
        ok: Whether it is as it should be.
        found: What was found.
        remedy: What to do. None: nothing.
    """

    check: str
    ok: bool
    found: str
    remedy: str | None = None
