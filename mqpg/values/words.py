"""Numbers, lists and lengths of time in words."""

from __future__ import annotations

import string
from typing import Any

__all__ = ["Words", "counted", "duration", "printable", "printable_lines", "size", "span"]

_UNITS = (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))


class Words(string.Formatter):
    """Formats templates: `{messages:dead letter}` is a number with its noun, and a list is listed."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list):
            return ", ".join(map(str, value))
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return counted(value, format_spec) if format_spec and is_number else str(format(value, format_spec))


def counted(number: int, noun: str) -> str:
    """Put a number and a noun together: `1 queue`, `2,000 queues`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds below two minutes, else the two largest units: `90 s`, `22 min 39 s`, `1 d 2 h`.

    What is negative counts as 0.
    """
    left = max(0, round(seconds))
    if left < 120:
        return f"{left} s"
    for unit, size, smaller, part in _UNITS:
        if left >= size:
            rest = left % size // part
            return f"{left // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError  # a minute is a unit


def printable(text: str) -> str:
    """Make control characters visible, so that no terminal takes somebody else's text for a command."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def printable_lines(text: str) -> str:
    """Make text of several lines printable, each line by itself. Tabs become blanks."""
    return "\n".join(map(printable, text.expandtabs(4).splitlines()))


def size(of_bytes: float) -> str:
    """A number of bytes: `512 B`, `1.5 MB`, `120 GB`."""
    number, unit = float(of_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"


def span(seconds: float) -> str:
    """Milliseconds below one second, such as `90 ms`, else as `duration` says."""
    return f"{seconds * 1000:,.0f} ms" if 0 < seconds < 1 else duration(seconds)
