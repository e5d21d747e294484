"""Rates, from what workers report with their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from mqpg.metrics.reading import Reading

__all__ = ["Rates", "Throughput"]


@dataclass(frozen=True)
class Throughput:
    """Messages a second. None: it is not known yet."""

    appended: float | None  # messages that got an offset
    handled: float | None  # messages that consumers handled


@dataclass
class _Counter:
    """What one worker has reported: when, how many, and how fast since the report before."""

    reported: float
    number: int
    rate: float | None = None


class Rates:
    """Remembers the latest report of each worker."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str], _Counter] = {}

    def add(self, at: float, found: Reading) -> Throughput:
        """Take what was found at a moment, on the clock of this process, and return the rates."""
        return Throughput(self._rate(at, found, "appender", "messages"), self._rate(at, found, "consumer", "handled"))

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
