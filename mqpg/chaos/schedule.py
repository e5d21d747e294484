"""The rounds of a run, from its seed: what kind of fault, and which nodes it hits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["BROKERS", "CONSUMERS", "KINDS", "NODES", "PRODUCERS", "Kind", "Round", "schedule"]

Kind = Literal["kill", "stop", "crash", "terminate", "cancel", "cut", "halfopen", "hold", "exhaust", "lock", "timeout"]
KINDS: tuple[Kind, ...] = get_args(Kind)

PRODUCERS = (1, 2, 3, 4)
CONSUMERS = (1, 2, 3, 4)
BROKERS = (1, 2)
NODES = (
    *(f"producer-{n}" for n in PRODUCERS),
    *(f"consumer-{n}" for n in CONSUMERS),
    *(f"broker-{n}" for n in BROKERS),
)
_ON_NODES = ("kill", "stop")  # the other kinds hit the server of a broker


@dataclass(frozen=True, slots=True)
class Round:
    """One round: a kind of fault and the nodes that it hits.

    Attributes:
        number: Its number, from 1.
        kind: The kind of fault.
        nodes: The nodes, in the order in which they are hit.
    """

    number: int
    kind: Kind
    nodes: tuple[str, ...]


def schedule(
    seed: int,
    rounds: int,
    faults: Sequence[Kind] = ("kill",),
    among: Sequence[str] = NODES,
    *,
    all_at_once: bool = False,
) -> list[Round]:
    """Plan the rounds.

    In rounds of `kill` and `stop` one node is hit. In every tenth of these rounds k nodes are, and
    k takes the values 1 to 10 in a random order. A hundred rounds of `kill` are thus 145 kills. The
    kinds take turns in a random order.

    Args:
        seed: The seed. The same seed gives the same rounds.
        rounds: How many rounds.
        faults: The kinds.
        among: The nodes that rounds of `kill` and `stop` choose from.
        all_at_once: Hit all of these nodes in each round of `kill` and `stop`.

    Returns:
        The rounds.
    """
    rng = random.Random(seed)
    found: list[Round] = []
    turns: list[Kind] = []
    sizes: list[int] = []
    wide = 0
    for number in range(1, rounds + 1):
        if not turns:
            turns = rng.sample(list(dict.fromkeys(faults)), len(set(faults)))
        kind = turns.pop()
        count = 1
        if kind in _ON_NODES:
            wide += 1
            if wide % 10 == 0:
                sizes = sizes or rng.sample(range(1, len(among) + 1), len(among))
                count = sizes.pop()
        count = len(among) if all_at_once and kind in _ON_NODES else count
        targets = among if kind in _ON_NODES else NODES[-len(BROKERS) :]
        found.append(Round(number, kind, tuple(rng.sample(list(targets), count))))
    return found
