"""The rounds of `python -m lab.chaos`: seeded, and of the sizes that FastMiniMQ's document asks for."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.chaos.names import NODES
from lab.chaos.schedule import KINDS, STEPS, TARGETS, schedule


@pytest.mark.parametrize("seed", range(20))
def test_a_hundred_rounds_are_145_kills_and_every_size_is_there(seed: int) -> None:
    rounds = schedule(seed, 100)
    assert sum(len(one.nodes) for one in rounds) == 145
    sizes = [len(one.nodes) for one in rounds]
    assert sorted(sizes[9::10]) == list(range(1, 11))
    assert all(len(set(one.nodes)) == len(one.nodes) for one in rounds)
    assert {size for n, size in enumerate(sizes, 1) if n % 10} == {1}


def test_a_seed_is_a_schedule() -> None:
    assert schedule(7, 100) == schedule(7, 100)
    assert len({tuple(schedule(seed, 100)) for seed in range(50)}) == 50


def test_all_at_once_hits_every_node_in_every_round() -> None:
    assert all(set(one.nodes) == set(NODES) for one in schedule(3, 12, all_at_once=True))


def test_kinds_take_turns_and_those_of_a_server_hit_one_broker() -> None:
    rounds = schedule(3, 4 * len(KINDS), KINDS)
    assert set(Counter(one.kind for one in rounds).values()) == {4}
    for one in rounds:
        if one.kind not in ("kill", "stop", "clock"):
            assert len(one.nodes) == 1
            assert one.nodes[0].startswith("broker-")


def test_only_some_nodes_can_be_chosen_from() -> None:
    among = ("consumer-1", "consumer-2")
    assert {name for one in schedule(3, 40, ("stop",), among) for name in one.nodes} == set(among)


def test_a_partition_leaves_some_producers_and_some_consumers_on_either_side() -> None:
    for one in schedule(5, 200, ("partition",)):
        for role in ("producer", "consumer"):
            apart = [name for name in one.how if name.startswith(role)]
            assert 1 <= len(apart) <= 3
        assert len(set(one.how)) == len(one.how)


def test_what_is_killed_and_where_the_clock_goes_take_turns() -> None:
    for kind in ("keep", "upgrade", "adopt"):
        assert {one.how for one in schedule(5, len(TARGETS), (kind,))} == {(target,) for target in TARGETS}
    assert {one.how for one in schedule(5, len(STEPS), ("clock",))} == {(step,) for step in STEPS}


def test_the_kinds_that_were_added_leave_the_schedules_of_the_others_alone() -> None:
    rounds = schedule(7, 5, ("kill", "stop", "crash"))
    assert [(one.kind, one.nodes) for one in rounds] == [
        ("crash", ("broker-1",)),
        ("kill", ("producer-2",)),
        ("stop", ("broker-1",)),
        ("crash", ("broker-1",)),
        ("stop", ("producer-1",)),
    ]
