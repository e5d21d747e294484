"""Supervision of a run: counts, restarts, kills, and the wait until everything has arrived."""

from __future__ import annotations

import time

from .chaos import Chaos
from .fleet import DemoError, Fleet
from .measure import Backlog, Gauges, Reading
from .progress import Progress

__all__ = ["Watch"]

_LOOK = 0.1  # least seconds between two counts; counting takes at most a twentieth of the time
_PATIENCE = 120.0  # seconds without any progress after which the demo ends
# The same after the producers are done. The audit then reports what is missing.
_DRAIN_PATIENCE = 40.0


class Watch:
    """The part of a run in which the processes work: it counts, strikes, and waits for the end."""

    def __init__(self, flights: int, fleet: Fleet, gauges: Gauges, chaos: Chaos, progress: Progress) -> None:
        self._flights, self._fleet, self._gauges = flights, fleet, gauges
        self._chaos, self._progress = chaos, progress
        self._last: tuple[Reading | None, Backlog | None] = (None, None)
        self._moved = self.started = time.monotonic()
        self._took = 0.0  # seconds

    def run(self) -> bool:
        """Watch until the end.

        Whether everything committed was consumed and no half is undecided.
        """
        while not self._fleet.finished("producer"):
            self._look(draining=False)
        self._progress.say("draining")
        while True:
            reading, backlog = self._look(draining=True)
            if reading and backlog and _is_drained(reading, backlog):
                return True
            if time.monotonic() - self._moved > _DRAIN_PATIENCE:
                return False  # the audit will report what is missing

    def _look(self, *, draining: bool) -> tuple[Reading | None, Backlog | None]:
        time.sleep(max(_LOOK, 20 * self._took))
        self._fleet.tend()
        began = time.monotonic()
        reading = self._gauges.reading()
        backlog = self._gauges.backlog() if draining else None
        self._took = min(time.monotonic() - began, 0.1)
        if (reading, backlog) != self._last:
            self._moved, self._last = time.monotonic(), (reading, backlog)
        if time.monotonic() - self._moved > _PATIENCE:
            raise DemoError(f"nothing has moved for {_PATIENCE:.0f} s: {self._fleet.tail()}")
        if reading is not None:
            self._progress.update(reading)
            struck = self._chaos.advance(reading.done / self._flights)
            if struck is not None:
                self._progress.strike(struck)
        return reading, backlog


def _is_drained(reading: Reading, backlog: Backlog) -> bool:
    # The lag counts appended messages. The comparison with the airline's rows shows the others.
    return backlog.undecided == 0 and backlog.lag == 0 and reading.shown >= reading.departed
