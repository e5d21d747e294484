"""The broker as one role sees it: its connections, and one reading for all who look."""

from __future__ import annotations

import threading
import time

from mqpg.metrics.reading import Reading, read
from mqpg.status import Source

from .rates import Rates, Sample

__all__ = ["View"]

_FRESH = 2.0  # seconds for which all visitors share one reading of the whole broker


class View:
    """The broker as one role sees it. Threads may share it.

    Args:
        source: The connections of the role.

    Attributes:
        source: The connections of the role.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._rates = Rates()
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._read_at = 0.0

    def reading(self) -> tuple[Reading, list[Sample]]:
        """Read the whole broker, or return what was read a moment ago.

        However many visitors look at the overview, the database is asked once in two seconds.

        Returns:
            The state, and the samples of the last minutes.

        Raises:
            Error: The broker does not answer, or the role may not look.
        """
        with self._lock:
            if self._reading is None or time.monotonic() - self._read_at > _FRESH:
                self._reading = read(self.source.rows)
                self._read_at = time.monotonic()
                self._rates.add(self._read_at, self._reading)
            return self._reading, self._rates.samples()
