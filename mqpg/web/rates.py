"""Rates over time, from what workers report with their heartbeats."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mqpg.metrics.reading import Reading

__all__ = ["Rates", "Sample"]

_KEPT = 300
# Seconds between two samples that a line does not cross. The overview takes one in three.
_GAP = 15.0


@dataclass(frozen=True)
class Sample:
    """The broker at one moment.

    Attributes:
        at: The moment, on the clock of this process.
        appended: Messages that got an offset, a second.
        handled: Messages that consumers handled, a second.
        lag: Messages that groups have not acknowledged.
        oldest: Age of the oldest of them in seconds.
        undecided: Half messages that are pending or parked.

    Rates are None until they are known. All are None in a sample that stands for a time when nobody
    looked.
    """

    at: float
    appended: float | None
    handled: float | None
    lag: int | None
    oldest: int | None
    undecided: int | None


@dataclass
class _Counter:
    """What one worker has reported: when, how many, and how fast since the report before."""

    reported: float
    number: int
    rate: float | None = None


class Rates:
    """Keeps the samples of the last minutes, while somebody looks."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._counters: dict[tuple[str, str], _Counter] = {}

    def add(self, at: float, found: Reading) -> None:
        """Take a sample of what was found at a moment, on the clock of this process."""
        groups = found.overview.groups
        if self._samples and at - self._samples[-1].at > _GAP:  # nobody looked meanwhile
            self._samples.append(Sample(at - _GAP / 2, None, None, None, None, None))
        self._samples.append(
            Sample(
                at,
                self._rate(at, found, "appender", "messages"),
                self._rate(at, found, "consumer", "handled"),
                sum(one["lag"] for one in groups),
                max((one["oldest_unread_seconds"] or 0 for one in groups), default=0),
                sum(one["pending"] + one["parked"] for one in found.overview.half_messages),
            )
        )

    def samples(self) -> list[Sample]:
        """Return the samples, the oldest first."""
        return list(self._samples)

    def _rate(self, at: float, found: Reading, role: str, key: str) -> float | None:
        """The sum of all workers of a role. A worker's rate changes with each of its heartbeats."""
        known: dict[tuple[str, str], _Counter] = {}
        for one in found.workers:
            number = one["detail"].get(key)
            if one["role"] != role or not isinstance(number, int):
                continue
            reported = at - float(one["seen_seconds_ago"])
            before = self._counters.get((role, one["worker_id"]))
            known[role, one["worker_id"]] = _counted(before, _Counter(reported, number))
        self._counters = {name: one for name, one in self._counters.items() if name[0] != role} | known
        rates = [one.rate for one in known.values() if one.rate is not None]
        return sum(rates) if rates else None


def _counted(before: _Counter | None, now: _Counter) -> _Counter:
    if before is None:
        return now
    if now.reported - before.reported < 0.5:  # the same heartbeat
        return before
    rate = max(0, now.number - before.number) / (now.reported - before.reported)
    return _Counter(now.reported, now.number, rate)
