"""Seeded kills, keyed on progress: a strike falls when its share of the flights is done, so work goes on."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["ROLES", "Chaos", "Strike", "Target", "Targets", "schedule"]

Target = Literal["producer", "consumer", "appender", "compensator", "postgres"]
ROLES: tuple[Target, ...] = ("producer", "consumer", "appender", "compensator")
_FIRST, _LAST = 0.06, 0.86  # shares of the flights between which all strikes fall


@dataclass(frozen=True, slots=True)
class Strike:
    """Kill one process of a role (or restart PostgreSQL) once `at` (0..1) of the flights is done."""

    at: float
    target: Target
    pick: int  # chooses among the living processes of the role
    pause: float  # seconds until the killed one is started again


class Targets(Protocol):
    """What chaos may strike: only processes that this demo started."""

    def kill(self, role: Target, pick: int, pause: float) -> str | None:
        """SIGKILL one living process; its name, or None where none of the role lives now."""

    def shake_postgres(self) -> str:
        """Restart the server hard, or cut all connections; says which: 'restart' or 'disconnect'."""


def schedule(seed: int, flights: int) -> list[Strike]:
    """The strikes of a run, ascending: PostgreSQL once; each role once and again per 10,000 flights (at most 8)."""
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
    """Carries a schedule out, one strike a call at most; counts what it did."""

    def __init__(self, strikes: list[Strike], targets: Targets) -> None:
        self._waiting = sorted(strikes, key=lambda strike: strike.at)
        self._targets = targets
        self.kills: Counter[str] = Counter(dict.fromkeys(ROLES, 0))
        self.restarts = 0
        self.disconnects = 0

    @property
    def waiting(self) -> int:
        """Strikes still to come."""
        return len(self._waiting)

    def advance(self, done: float) -> str | None:
        """Strike once if a strike is due at this share of the flights; what was struck, for people.

        A strike whose role has no living process now (it is being restarted) stays due.
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
        return f"SIGKILL {name}"

    def _shake(self) -> str:
        if self._targets.shake_postgres() == "restart":
            self.restarts += 1
            return "PostgreSQL: immediate shutdown, restart"
        self.disconnects += 1
        return "PostgreSQL: all connections cut"
