"""Which crash points there are, and which of them are tried where there are too many."""

from __future__ import annotations

from collections.abc import Iterable

from mqpg.crashtest.referee import Moment, Point, Sent

__all__ = ["choose", "points_of"]

_NEVER_REFUSED = ("begin", "commit", "rollback", "savepoint", "release", "start", "end", "set", "abort")


def points_of(sent: Sent) -> list[Point]:
    """The crash points of one statement: before and after it, and its refusal if the handler sent it."""
    moments = [Moment.BEFORE, Moment.AFTER]
    if sent.by_handler and sent.text.split(maxsplit=1)[:1] and _first_word(sent.text) not in _NEVER_REFUSED:
        moments.append(Moment.REFUSED)
    return [Point(sent.key, sent.nth, moment) for moment in moments]


def choose(trace: Iterable[Sent], most: int) -> tuple[list[tuple[Sent, Point]], int]:
    """Choose the crash points to try, in the order of the statements.

    Commits, what the handler writes, and deliveries with their acknowledgements come first, then
    everything else of the handler, then the calls of mqpg, then the rest.

    Args:
        trace: What the process sent.
        most: The most points.

    Returns:
        The points, and how many were left out.
    """
    found = [(sent, point) for sent in trace for point in points_of(sent)]
    order = sorted(range(len(found)), key=lambda index: (_rank(found[index][0]), index))
    chosen = sorted(order[:most])
    return [found[index] for index in chosen], len(found) - len(chosen)


def _rank(sent: Sent) -> int:
    if sent.commits or sent.acknowledges or (sent.writes and not sent.ours) or (sent.writes and sent.by_handler):
        return 0
    if sent.by_handler or not sent.ours:
        return 1
    return 2 if "mqpg." in sent.text or "mqpg_" in sent.text else 3


def _first_word(text: str) -> str:
    return text.split(maxsplit=1)[0].lower().rstrip(";")
