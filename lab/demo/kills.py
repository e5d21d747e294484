"""Kills at seeded points of the progress.

A kill is due when its share of the flights is done. As a consequence, it always falls while work is
going on, however fast the machine is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from lab.processes import Fleet
from mqpg.audit.faults import Fault

__all__ = ["ROLES", "Kill", "Kills", "Target", "schedule"]

Target = Literal["producer", "consumer", "appender", "compensator", "postgres"]
ROLES: tuple[Target, ...] = ("producer", "consumer", "appender", "compensator")
_FIRST, _LAST = 0.06, 0.86  # shares of the flights between which all kills fall


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a process of a role, or restart PostgreSQL, at the share `at` (0 to 1)."""

    at: float
    target: Target
    pick: int  # chooses among the living processes of the role
    pause: float  # seconds until the killed one is started again


def schedule(seed: int, flights: int) -> list[Kill]:
    """The kills of a run in ascending order.

    PostgreSQL is restarted once. Each role is killed once, and once more for each 10,000 flights,
    but at most eight times.
    """
    rng = random.Random(f"mqpg-demo-{seed}")
    targets: list[Target] = [*ROLES * min(8, 1 + flights // 10_000), "postgres"]
    rng.shuffle(targets)
    slot = (_LAST - _FIRST) / len(targets)
    return [
        Kill(
            at=_FIRST + slot * (place + rng.random()),
            target=target,
            pick=rng.randrange(1 << 16),
            pause=round(rng.uniform(0.1, 1.0), 3),
        )
        for place, target in enumerate(targets)
    ]


class Kills:
    """Carries out a schedule, and logs its kills.
    Attributes:
        waiting: The kills that are still to come.
    """

    def __init__(self, planned: list[Kill], fleet: Fleet, restart: Callable[[], None]) -> None:
        self.waiting = sorted(planned, key=lambda one: one.at)
        self._fleet, self._restart = fleet, restart
        self.restarts = 0
        self.log: list[Fault] = []

    def advance(self, done: float) -> str | None:
        """Carry out at most one kill that is due.

        A kill whose role has no living process, because it is just being restarted, stays due.
        Returns:
            What was killed, in words. None: nothing was.
        """
        for one in self.waiting:
            if one.at > done:
                return None
            if (fault := self._carry_out(one)) is not None:
                self.waiting.remove(one)
                self.log.append(fault)
                return f"{fault.what} {fault.target}"
        return None

    def _carry_out(self, one: Kill) -> Fault | None:
        began = datetime.now(UTC)
        if one.target == "postgres":
            self._restart()
            self.restarts += 1
            return Fault(began, "immediate shutdown, restart", "PostgreSQL", datetime.now(UTC))
        living = self._fleet.living(one.target)
        name = self._fleet.kill(living[one.pick % len(living)], one.pause) if living else None
        return Fault(began, "SIGKILL", name) if name else None
