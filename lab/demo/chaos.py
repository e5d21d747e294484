"""Kills at seeded moments of the progress.

A strike is due when its share of the flights is done. As a consequence, it always falls while work
is going on, however fast the machine is.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

from mqpg.audit.faults import Fault

__all__ = ["ROLES", "Chaos", "Strike", "Target", "Targets", "schedule"]

Target = Literal["producer", "consumer", "appender", "compensator", "postgres"]
ROLES: tuple[Target, ...] = ("producer", "consumer", "appender", "compensator")
_FIRST, _LAST = 0.06, 0.86  # shares of the flights between which all strikes fall


@dataclass(frozen=True, slots=True)
class Strike:
    """Kill a process of a role, or restart PostgreSQL, at the share `at` (0 to 1)."""

    at: float
    target: Target
    pick: int  # chooses among the living processes of the role
    pause: float  # seconds until the killed one is started again


class Targets(Protocol):
    """What may be struck: only processes that this demo started."""

    def kill(self, role: Target, pick: int, pause: float) -> str | None:
        """Kill one living process with SIGKILL.

        Its name, or None where no process of the role lives now.
        """

    def shake_postgres(self) -> str:
        """Crash and restart the server ('restart'), or cut all its connections ('disconnect')."""


def schedule(seed: int, flights: int) -> list[Strike]:
    """The strikes of a run in ascending order.

    PostgreSQL is struck once. Each role is struck once, and once more for each 10,000 flights, but
    at most eight times.

    Args:
        seed: Equal seeds give equal strikes.
        flights: Number of flights in the run.
    """
    rng = random.Random(f"mqpg-demo-{seed}")
    targets: list[Target] = [*ROLES * min(8, 1 + flights // 10_000), "postgres"]
    rng.shuffle(targets)
    slot = (_LAST - _FIRST) / len(targets)
    return [
        Strike(
            at=_FIRST + slot * (place + rng.random()),
            target=target,
            pick=rng.randrange(1 << 16),
            pause=round(rng.uniform(0.1, 1.0), 3),
        )
        for place, target in enumerate(targets)
    ]


class Chaos:
    """Carries out a schedule, and counts and logs its strikes."""

    def __init__(self, strikes: list[Strike], targets: Targets) -> None:
        self._waiting = sorted(strikes, key=lambda strike: strike.at)
        self._targets = targets
        self.kills: Counter[str] = Counter(dict.fromkeys(ROLES, 0))
        self.restarts = 0
        self.disconnects = 0
        self.log: list[Fault] = []

    @property
    def waiting(self) -> int:
        """How many strikes are still to come."""
        return len(self._waiting)

    def advance(self, done: float) -> str | None:
        """Carry out at most one strike that is due.

        A strike whose role has no living process, because it is just being restarted, stays due.

        Args:
            done: The share of the flights that is done, 0 to 1.

        Returns:
            What was struck, in words, or None where nothing was.
        """
        for strike in self._waiting:
            if strike.at > done:
                return None
            struck = self._strike(strike)
            if struck is not None:
                self._waiting.remove(strike)
                return struck
        return None

    def _strike(self, strike: Strike) -> str | None:
        if strike.target == "postgres":
            return self._shake()
        name = self._targets.kill(strike.target, strike.pick, strike.pause)
        if name is None:
            return None
        self.kills[strike.target] += 1
        self.log.append(Fault(datetime.now(UTC), "SIGKILL", name))
        return f"SIGKILL {name}"

    def _shake(self) -> str:
        started = datetime.now(UTC)
        if self._targets.shake_postgres() == "restart":
            self.restarts += 1
            what = "immediate shutdown, restart"
        else:
            self.disconnects += 1
            what = "all connections cut"
        self.log.append(Fault(started, what, "PostgreSQL", datetime.now(UTC)))
        return f"PostgreSQL: {what}"
