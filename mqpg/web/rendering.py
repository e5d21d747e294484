"""The templates and their filters."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta

from jinja2 import Environment, PackageLoader, StrictUndefined

from mqpg.status.workers import in_words
from mqpg.values.json_output import laid_out
from mqpg.values.words import duration, size, span

__all__ = ["MOST_SHOWN", "environment"]

MOST_SHOWN = 20_000
"""Characters of a payload that a page shows."""

_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def environment() -> Environment:
    """Make the environment of the dashboard's pages, with its filters."""
    made = Environment(
        loader=PackageLoader("mqpg.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": _count,
        "seconds": lambda number: "–" if number is None else duration(number),
        "bytes": lambda number: "–" if number is None else size(number),
        "when": _when,
        "plain": _plain,
        "words": lambda value: _plain(in_words(value)),
        "interval": _interval,
        "pretty": _pretty,
    }
    return made


def _count(number: float | None) -> str:
    if number is None:
        return "–"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}" if number >= 100 else f"{number:,.1f}"


def _when(at: datetime | str | None) -> str:
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            return _plain(at)
    return "–" if at is None else at.strftime("%Y-%m-%d %H:%M:%S %Z")


def _plain(value: object) -> str:
    """Text in which control characters, and those that turn the direction, show as escapes."""
    text = "" if value is None else str(value)
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def _interval(length: timedelta | str | None) -> str:
    """A duration that somebody has set."""
    if isinstance(length, str) and (clock := _CLOCK.fullmatch(length)):
        length = timedelta(hours=int(clock[1]), minutes=int(clock[2]), seconds=float(clock[3]))
    if not isinstance(length, timedelta):
        return _plain(length)
    return span(length.total_seconds())


def _pretty(raw: str | None, length: int | None = None) -> str:
    """JSON, indented. What cannot be read stays as it is, and what is long is cut.

    `length` is that of the whole text, if `raw` is only the beginning of it.
    """
    text = raw or ""
    if len(text) <= MOST_SHOWN:
        with suppress(ValueError, RecursionError):
            text = laid_out(text)
    cut = max(len(text), length or 0) - MOST_SHOWN
    return _plain(text[:MOST_SHOWN]) + (f"\n… and {cut:,} characters more" if cut > 0 else "")
