"""The handle of a half message: broker, incarnation, message id and nonce, with points between."""

from __future__ import annotations

import re

__all__ = ["HANDLE", "parse_handle"]

HANDLE = re.compile(r"^([^.]+)\.\d+\.(\d{1,18})\.([0-9a-f]{32})$")


def parse_handle(text: str) -> tuple[str, int] | None:
    """Read a handle.

    Args:
        text: The handle.

    Returns:
        The id of its broker, and the message id. None: it is no handle.
    """
    found = HANDLE.match(text)
    return (found[1], int(found[2])) if found else None
