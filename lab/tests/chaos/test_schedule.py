"""The rounds of `python -m lab.chaos`: seeded, and of the sizes that FastMiniMQ's document asks for."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.chaos.names import NODES, WORKERS
from lab.chaos.schedule import CUTS, KINDS, schedule


@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_rounds_are_145_kills_and_every_size_is_there(seed: int) -> None:
    rounds = schedule(seed, 100, spread="single")
    assert rounds == schedule(seed, 100, spread="single") != schedule(seed + 1, 100, spread="single")
    assert sum(len(one.nodes) for one in rounds) == 145
    sizes = [len(one.nodes) for one in rounds]
    assert sorted(sizes[9::10]) == list(range(1, 11))
    assert all(len(set(one.nodes)) == len(one.nodes) for one in rounds)
    assert {size for n, size in enumerate(sizes, 1) if n % 10} == {1}


def test_each_number_of_nodes_is_equally_frequent() -> None:
    rounds = schedule(3, 100)
    assert Counter(len(one.nodes) for one in rounds) == dict.fromkeys(range(1, 11), 10)
    assert all(len(set(one.nodes)) == len(one.nodes) for one in rounds)


def test_all_at_once_hits_every_node_in_every_round() -> None:
    assert all(set(one.nodes) == set(NODES) for one in schedule(3, 12, spread="all"))


def test_kinds_take_turns_and_those_of_a_server_hit_one_broker() -> None:
    rounds = schedule(3, 4 * len(KINDS), KINDS)
    assert set(Counter(one.kind for one in rounds).values()) == {4}
    for one in rounds:
        if one.kind not in ("kill", "stop", "clock"):
            assert len(one.nodes) == 1
            assert one.kind in CUTS or one.nodes[0].startswith("broker-")


def test_any_container_is_cut_off_and_in_both_directions() -> None:
    rounds = schedule(3, 200, CUTS, (*NODES, *WORKERS))
    assert {one.nodes[0] for one in rounds} == {*NODES, *WORKERS}
    assert {one.how for one in rounds if one.kind == "oneway"} == {("in",), ("out",)}
