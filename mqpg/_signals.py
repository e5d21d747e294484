"""What a handler raises to say what becomes of its message. These are answers, not errors of mqpg."""

from __future__ import annotations

from datetime import timedelta

from mqpg.message import Interval

__all__ = ["Reject", "Retry"]


class Retry(Exception):
    """Deliver the message again, after `delay` (else the subscription's back-off); its effect is undone.

    It counts as an attempt like any other failure: after max_attempts the message is a dead letter. A delay below
    zero is over already (`due - now`, just missed): at once. One that is no time span leaves it to the back-off.
    """

    def __init__(self, reason: str | None = None, *, delay: Interval | None = None) -> None:
        super().__init__(reason or "the handler asked for a retry")
        self.delay = _from_now(delay)


class Reject(Exception):
    """Make the message a dead letter now, whatever attempts are left; its effect is undone."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "rejected by the handler")


def _from_now(delay: Interval | None) -> Interval | None:
    if isinstance(delay, timedelta):
        return max(delay, timedelta())
    return max(delay, 0) if isinstance(delay, (int, float)) else delay
