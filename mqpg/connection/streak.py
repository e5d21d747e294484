"""Failures in a row, as heartbeats report them."""

from __future__ import annotations

import time

__all__ = ["FailureStreak"]

_LONGEST = 500  # characters of an error


class FailureStreak:
    """What has failed since something worked the last time."""

    def __init__(self) -> None:
        self._began = 0.0
        self._times = 0
        self._error = ""

    def failed(self, error: BaseException | str) -> None:
        """Count one more failure."""
        if self._times == 0:
            self._began = time.monotonic()
        self._times += 1
        self._error = str(error)[:_LONGEST]

    def worked(self) -> bool:
        """End the failures in a row, and return whether there were any."""
        had_failed, self._times = self._times > 0, 0
        return had_failed

    def described(self) -> dict[str, object] | None:
        """For how many seconds, how often, and the newest error. None: nothing has failed since it worked."""
        if self._times == 0:
            return None
        return {"seconds": round(time.monotonic() - self._began), "times": self._times, "error": self._error}
