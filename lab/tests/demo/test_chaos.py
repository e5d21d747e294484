"""The kill schedule: seeded, complete, within the work."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.demo.chaos import ROLES, Chaos, Strike, Target, schedule


class Recorder:
    """Targets that note what is struck; roles in `away` have no living process."""

    def __init__(self) -> None:
        self.struck: list[str] = []
        self.away: set[str] = set()

    def kill(self, role: Target, pick: int, pause: float) -> str | None:
        if role in self.away:
            return None
        self.struck.append(role)
        return role

    def shake_postgres(self) -> str:
        self.struck.append("postgres")
        return "restart"


@pytest.mark.parametrize(("flights", "each"), [(1, 1), (1_500, 1), (27_004, 3), (336_776, 8)])
def test_each_role_is_killed_and_postgres_restarted_once(flights: int, each: int) -> None:
    counts = Counter(strike.target for strike in schedule(7, flights))
    assert counts == {**dict.fromkeys(ROLES, each), "postgres": 1}


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 27_004) == schedule(7, 27_004)
    assert len({tuple(schedule(seed, 27_004)) for seed in range(50)}) == 50


def test_strikes_fall_while_work_goes_on_and_never_together() -> None:
    for seed in range(200):
        places = [strike.at for strike in schedule(seed, 27_004)]
        assert places == sorted(set(places))
        assert places[0] > 0.05
        assert places[-1] < 0.9


def test_strikes_wait_for_their_share_of_the_work() -> None:
    targets = Recorder()
    chaos = Chaos([Strike(0.5, "appender", 0, 0.1), Strike(0.2, "producer", 0, 0.1)], targets)
    assert chaos.advance(0.1) is None
    assert chaos.advance(0.2) == "SIGKILL producer"
    assert chaos.advance(0.4) is None
    assert chaos.advance(1.0) == "SIGKILL appender"
    assert chaos.advance(1.0) is None
    assert chaos.waiting == 0
    assert chaos.kills == {"producer": 1, "appender": 1, "consumer": 0, "compensator": 0}


def test_a_role_without_a_living_process_stays_due_and_holds_nobody_up() -> None:
    targets = Recorder()
    targets.away.add("consumer")
    chaos = Chaos([Strike(0.1, "consumer", 0, 0.1), Strike(0.2, "postgres", 0, 0.1)], targets)
    assert chaos.advance(0.3) == "PostgreSQL: immediate shutdown, restart"
    assert chaos.advance(0.3) is None
    targets.away.clear()
    assert chaos.advance(0.3) == "SIGKILL consumer"
    assert (chaos.kills["consumer"], chaos.restarts) == (1, 1)
