"""The handle of a half message: broker, incarnation, message id and nonce, with points between."""

from __future__ import annotations

import re

__all__ = ["EXAMPLE", "HANDLE", "parse_handle"]

EXAMPLE = "3f0c9a6d21be.1.1024.8d2f4c1e90ab4b7f9c35e6a1d0872b44"
HANDLE = re.compile(r"^([^.]+)\.\d+\.(\d{1,19})\.([0-9a-f]{32})\Z")


def parse_handle(text: str) -> tuple[str, int] | None:
    """The id of the broker and the message id that are in a handle. None: the text is no handle."""
    found = HANDLE.match(text)
    return (found[1], int(found[2])) if found else None
