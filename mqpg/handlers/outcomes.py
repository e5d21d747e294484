"""What a handler raises to decide about its message. These are no errors of mqpg."""

from __future__ import annotations

from datetime import timedelta

from mqpg.values.messages import Interval

__all__ = ["Reject", "Retry"]


class Retry(Exception):
    """Raised by a handler to have its message delivered again. Its effect is undone.

    It counts as an attempt, like any other failure: after `max_attempts` the message becomes a dead
    letter.

    Args:
        reason: Why; shown by `trace` and with the dead letter. None: "the handler asked for a
            retry".
        delay: How long until the next attempt. A delay below zero, such as a moment that has just
            passed, means at once. None, or a text that is no time span: the subscription's
            back-off.
    """

    def __init__(self, reason: str | None = None, *, delay: Interval | None = None) -> None:
        super().__init__(reason or "the handler asked for a retry")
        self.delay = _from_now(delay)


class Reject(Exception):
    """Raised by a handler to make its message a dead letter now, whatever attempts are left.

    Its effect is undone.

    Args:
        reason: Why; shown by `trace` and with the dead letter. None: "rejected by the handler".
    """

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "rejected by the handler")


def _from_now(delay: Interval | None) -> Interval | None:
    if isinstance(delay, timedelta):
        return max(delay, timedelta())
    return max(delay, 0) if isinstance(delay, (int, float)) else delay
