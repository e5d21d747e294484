"""The widths of the intervals in which an audit counts messages over time."""

from __future__ import annotations

from datetime import datetime

__all__ = ["interval_seconds"]

_MOST = 120
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)


def interval_seconds(first: datetime | None, last: datetime | None) -> int:
    """Choose the width of the intervals, a round number of seconds, so that there are at most 120 of them.

    `first` and `last` are None if there is nothing to show.
    """
    span = 0.0 if first is None or last is None else (last - first).total_seconds()
    fitting = (width for width in _WIDTHS if span / width < _MOST)
    return next(fitting, 86400 * (int(span / 86400 / _MOST) + 1))
