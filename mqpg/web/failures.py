"""How often passwords may be wrong."""

from __future__ import annotations

import threading
import time

__all__ = ["Failures", "TooManyFailures"]

# Nobody mistypes a password so often, and a guesser gets no further.
_MOST, _FORGET_AFTER = 10, 60.0


class TooManyFailures(Exception):
    """Too many passwords were wrong in the last minute, so none is compared."""


class Failures:
    """The wrong passwords of the last minute, whoever typed them.

    A password counts as wrong from the moment when somebody looks at it. Otherwise many could be
    tried at the same time.
    """

    def __init__(self) -> None:
        self._times: list[float] = []
        self._lock = threading.Lock()

    def count(self) -> float:
        """Count a password as wrong, before it is compared.

        Returns:
            What `forget` takes.

        Raises:
            TooManyFailures: There were too many in the last minute.
        """
        now = time.monotonic()
        with self._lock:
            self._times = [at for at in self._times if now - at < _FORGET_AFTER]
            if len(self._times) >= _MOST:
                raise TooManyFailures("too many wrong passwords")
            self._times.append(now)
        return now

    def forget(self, counted: float) -> None:
        """Take a password back that was not wrong.

        Args:
            counted: What `count` returned.
        """
        with self._lock:
            if counted in self._times:
                self._times.remove(counted)
