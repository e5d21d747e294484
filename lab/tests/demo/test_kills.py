"""The schedule of kills: seeded, complete, within the work."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from lab.demo.kills import ROLES, Kill, Kills, schedule


class Recorder:
    """A fleet that notes what is killed; roles in `away` have no living process."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.killed: list[str] = []

    def living(self, role: str) -> list[str]:
        return [] if role in self.away else [role]

    def kill(self, name: str, pause: float) -> str:
        self.killed.append(name)
        return name


@pytest.mark.parametrize(("flights", "each"), [(1, 1), (1_500, 1), (27_004, 3), (336_776, 8)])
def test_each_role_is_killed_and_postgres_restarted_once(flights: int, each: int) -> None:
    counts = Counter(one.target for one in schedule(7, flights))
    assert counts == {**dict.fromkeys(ROLES, each), "postgres": 1}


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 27_004) == schedule(7, 27_004)
    assert len({tuple(schedule(seed, 27_004)) for seed in range(50)}) == 50


def test_kills_fall_while_work_goes_on_and_never_together() -> None:
    for seed in range(200):
        places = [one.at for one in schedule(seed, 27_004)]
        assert places == sorted(set(places))
        assert 0.05 < places[0] < places[-1] < 0.9


def test_kills_wait_for_their_share_of_the_work() -> None:
    fleet = Recorder()
    kills = Kills([Kill(0.5, "appender", 0, 0.1), Kill(0.2, "producer", 0, 0.1)], cast("Any", fleet), lambda: None)
    assert [kills.advance(done) for done in (0.1, 0.2, 0.4, 1.0, 1.0)] == [
        None, "SIGKILL producer", None, "SIGKILL appender", None,
    ]  # fmt: skip
    assert (kills.waiting, fleet.killed) == ([], ["producer", "appender"])


def test_a_role_without_a_living_process_stays_due_and_others_do_not_wait_for_it() -> None:
    fleet = Recorder()
    fleet.away.add("consumer")
    kills = Kills([Kill(0.1, "consumer", 0, 0.1), Kill(0.2, "postgres", 0, 0.1)], cast("Any", fleet), lambda: None)
    assert kills.advance(0.3) == "immediate shutdown, restart PostgreSQL"
    assert kills.advance(0.3) is None
    fleet.away.clear()
    assert kills.advance(0.3) == "SIGKILL consumer"
    assert (fleet.killed, kills.restarts) == (["consumer"], 1)
