"""What all pages of one dashboard share."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from jinja2 import Environment

from mqpg.metrics.reading import Reading, read_metrics
from mqpg.status import Source

from .login import Login
from .rates import Rates, Throughput
from .rendering import environment
from .reports import Reports

__all__ = ["Site"]

_FRESH = 2.0  # seconds for which all visitors share one reading of the whole broker


@dataclass
class Site:
    """One dashboard. Threads may share it."""

    source: Source  # the connections to the broker
    login: Login | None  # Finds out who asks. None: everybody may read.
    actions: bool  # whether users may change something
    reports: Reports | None = None  # The pages of audits. None: it shows none.
    templates: Environment = field(default_factory=environment)

    def __post_init__(self) -> None:
        self._rates = Rates()
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._throughput = Throughput(None, None)
        self._read_at = 0.0

    def reading(self) -> tuple[Reading, Throughput]:
        """The state of the whole broker, and how fast messages flow.

        However many visitors look at the overview, the database is asked once in two seconds.
        """
        with self._lock:
            if self._reading is None or time.monotonic() - self._read_at > _FRESH:
                self._reading = read_metrics(self.source.rows)
                self._read_at = time.monotonic()
                self._throughput = self._rates.add(self._read_at, self._reading)
            return self._reading, self._throughput
