"""JSON for output, in which what was stored stays the text that it is."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

from mqpg.values.messages import Json

__all__ = ["dumps", "laid_out"]

# JSON needs no escape for these, but a terminal may take them for a command, and readers of lines for their end.
_UNSAFE = "\x7f-\x9f\u2028\u2029"
_CONTROLS = re.compile(f"[\x00-\x1f{_UNSAFE}]")
_BLANKS = "\t\n\r"
_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")


def dumps(value: Any, *, indent: int | None = None, ascii_only: bool = True) -> str:
    """Write a value as JSON. A Json in it is written as its text, and what JSON has no type for as text.

    Python would write 1.10 as 1.1 and 1e400 as Infinity, which is no JSON.
    """
    texts: list[str] = []
    mark = uuid.uuid4().hex

    def hold_place(one: object) -> str:
        if not isinstance(one, Json):
            return str(one)
        texts.append(_CONTROLS.sub(_escaped, one.raw))
        return f"{mark}{len(texts) - 1}"

    text = re.sub(
        f"[{_UNSAFE}]", _escaped, json.dumps(value, default=hold_place, ensure_ascii=ascii_only, indent=indent)
    )
    text = re.sub(f'"{mark}([0-9]+)"', lambda found: texts[int(found[1])], text)
    return _BEYOND_ASCII.sub(_as_ascii, text) if ascii_only and not text.isascii() else text


def laid_out(text: str) -> str:
    """Lay JSON out on many lines, with each number as it is. Raises ValueError if keys of an object are equal."""
    return dumps(
        json.loads(text, parse_float=Json, parse_int=Json, object_pairs_hook=_distinct), indent=2, ascii_only=False
    )


def _escaped(found: re.Match[str]) -> str:
    return " " if found[0] in _BLANKS else f"\\u{ord(found[0]):04x}"


def _as_ascii(found: re.Match[str]) -> str:
    """The escapes of JSON, which are not those of Python: two of them for a character beyond U+FFFF."""
    return json.dumps(found[0])[1:-1]


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("two keys of an object are equal")
    return found
