"""Which crash points there are, and which of them are tried if there are too many."""

from __future__ import annotations

from collections.abc import Iterable

from mqpg.crashtest.fault_injector import Moment, Point, Sent

__all__ = ["choose", "points_of"]

_NEVER_REFUSED = ("begin", "commit", "rollback", "savepoint", "release", "start", "end", "set", "abort")
_LAST = 3


def points_of(sent: Sent) -> list[Point]:
    """The crash points of one statement: before, after, and refused if the handler sent it."""
    moments = [Moment.BEFORE, Moment.AFTER]
    if sent.by_handler and _first_word(sent.text) not in _NEVER_REFUSED:
        moments.append(Moment.REFUSED)
    return [Point(sent.key, sent.nth, moment) for moment in moments]


def choose(trace: Iterable[Sent], most: int) -> tuple[list[tuple[Sent, Point]], int]:
    """Choose at most `most` crash points to try, in the order of the statements, and count the others.

    Commits, what the handler writes, and deliveries with their acknowledgements come first, then everything
    else of the handler, then the calls of mqpg, then the rest.
    """
    statements = list(trace)
    begin = next((n for n, sent in enumerate(statements) if sent.by_handler or sent.acknowledges), 0)
    found, ranks = [], []
    for number, sent in enumerate(statements):
        for point in points_of(sent):
            found.append((sent, point))
            # What comes before the first delivery only connects and looks.
            ranks.append(_rank(sent) if number >= begin else _LAST)
    order = sorted(range(len(found)), key=lambda index: (ranks[index], index))
    chosen = sorted(order[:most])
    return [found[index] for index in chosen], len(found) - len(chosen)


def _rank(sent: Sent) -> int:
    if sent.commits or sent.acknowledges or (sent.writes and not sent.ours) or (sent.writes and sent.by_handler):
        return 0
    if sent.by_handler or not sent.ours:
        return 1
    return 2 if "mqpg." in sent.text or "mqpg_" in sent.text else _LAST


def _first_word(text: str) -> str:
    return (text.split(maxsplit=1) or [""])[0].lower().rstrip(";")
