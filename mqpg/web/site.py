"""What all pages of one dashboard share."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from jinja2 import Environment

from mqpg.metrics.reading import Reading, read
from mqpg.status import Source

from .rates import Rates, Sample
from .rendering import environment
from .reports import Reports
from .security import Security

__all__ = ["Site"]

_FRESH = 2.0  # seconds for which all visitors share one reading of the whole broker


@dataclass
class Site:
    """One dashboard.

    Attributes:
        source: The broker.
        security: The login.
        actions: Whether those who have logged in may change something.
        reports: The pages of audits. None: it shows none.
        templates: The templates.
    """

    source: Source
    security: Security
    actions: bool
    reports: Reports | None = None
    templates: Environment = field(default_factory=environment)
    _rates: Rates = field(default_factory=Rates)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reading: Reading | None = None
    _read_at: float = 0.0

    def reading(self) -> tuple[Reading, list[Sample]]:
        """Read the whole broker, or return what was read a moment ago.

        However many visitors look at the overview, the database is asked once in two seconds.

        Returns:
            The state, and the samples of the last minutes.

        Raises:
            Error: The broker does not answer.
        """
        with self._lock:
            if self._reading is None or time.monotonic() - self._read_at > _FRESH:
                self._reading = read(self.source.rows)
                self._read_at = time.monotonic()
                self._rates.add(self._read_at, self._reading)
            return self._reading, self._rates.samples()
