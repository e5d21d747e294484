"""What a listener has seen of notifications: whether they arrive, how many are junk, when to poll next."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

__all__ = ["Notifications"]

logger = logging.getLogger("mqpg")

_FIRST_POLL = 0.05  # without notifications: the pause after a new tick
_SAFETY = 10.0  # with notifications: the longest pause between two polls
_LATE = 1.0  # how long after a tick was seen its notification may still arrive
_JUNK = 0.05  # the longest pause after notifications that brought no news
_FIRST_JUNK = 0.001  # the first one; a notification is often late, and the tick already seen


class Notifications:
    """The state of one connection that listens. Its methods are what can happen to it.

    Notifications are trusted from the first one of a new tick. A poll that finds a tick without a
    notification puts them in doubt: the notification has a second to come, and then trust is lost.
    While they are not trusted, or in doubt, the listener polls in pauses that grow as long as
    nothing happens.
    """

    def __init__(self, longest_pause: float) -> None:
        self._longest_pause = longest_pause
        self.trusted = False
        # If in doubt: since when, and the newest tick before the one without a notification.
        self._doubt: tuple[float, int] | None = None
        # Whether the last announced tick was a real one, so that the next can wake before the poll.
        self.credible = True
        self._pause = _FIRST_POLL
        self._junk_pause = _FIRST_JUNK

    def seconds_until_poll(self) -> float:
        """How long to wait for a notification before the next poll."""
        return _SAFETY if self.trusted and self._doubt is None else self._pause

    def seconds_after_junk(self) -> float:
        """How long to read no notification after those of known ticks. Each time it is longer."""
        pause = self._junk_pause
        self._junk_pause = min(pause * 2, _JUNK)
        return pause

    def heard(self, ticks: Iterable[int]) -> None:
        """Notifications came. One of the tick that caused the doubt ends it: the poll was faster."""
        if self._doubt is not None and any(tick > self._doubt[1] for tick in ticks):
            self._trust()

    def announced(self) -> None:
        """A notification of a new tick came."""
        self._trust()

    def polled(self, *, announced: bool, news: bool, known: int) -> float:
        """A poll is over. Returns how many seconds to read no notification, because the last one was junk.

        `announced`: a notification of a new tick had caused it. `news`: it found a new tick. `known` is the
        newest tick before it.
        """
        if announced:
            self.credible = news
        elif news:
            self.credible = True
            self._doubt = self._doubt or (time.monotonic(), known)
        if news:
            self._junk_pause = _FIRST_JUNK
        self._pause = _FIRST_POLL if news and not announced else min(self._pause * 2, self._longest_pause)
        self._lose_trust_if_late()
        return _JUNK if announced and not news else 0.0

    def _trust(self) -> None:
        self.trusted, self._doubt = True, None

    def _lose_trust_if_late(self) -> None:
        if self._doubt is None or time.monotonic() - self._doubt[0] <= _LATE:
            return
        if self.trusted:
            logger.warning(
                "notifications of the broker no longer arrive; polling for new ticks in short pauses instead"
            )
        self.trusted, self._doubt = False, None
