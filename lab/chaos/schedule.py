"""What a run does: its options, and its rounds, from its seed: what kind of fault, and which nodes it hits."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from .names import BROKERS, NODES, PROTOCOL_NAMES

__all__ = [
    "ENGINES",
    "CUTS",
    "IN_CONTAINERS",
    "KINDS",
    "PLACES",
    "STEPS",
    "SPREADS",
    "TARGETS",
    "Kind",
    "Options",
    "Place",
    "Round",
    "Spread",
    "Target",
    "schedule",
]

Kind = Literal["kill", "stop", "crash", "terminate", "cancel", "cut", "halfopen", "hold", "exhaust", "lock", "timeout",
    "partition", "keep", "upgrade", "audit", "disk", "clock", "slow", "adopt", "detach", "oneway", "link"]  # fmt: skip
Spread = Literal["even", "single", "all"]
Place = Literal["processes", "containers"]
Target = Literal["server", "backend", "client"]
SPREADS: tuple[Spread, ...] = get_args(Spread)
ENGINES = ("sql", "spark")
KINDS: tuple[Kind, ...] = get_args(Kind)
TARGETS: tuple[Target, ...] = get_args(Target)
STEPS = ("+7200", "-7200", "+30", "-30")  # seconds; a lease lasts 3
PLACES: tuple[Place, ...] = get_args(Place)
CUTS: tuple[Kind, ...] = ("detach", "oneway", "link")  # of one container from the network
IN_CONTAINERS = ("kill", "stop", "disk", "clock", *CUTS)
_ON_NODES = ("kill", "stop", "clock")  # the other kinds but CUTS hit the server of a broker


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line, and some that only tests use.

    Attributes:
        interval: The least seconds from one fault to the next one.
        spread: How many nodes a round of `kill`, `stop` or `clock` hits; see `schedule`.
        rate: Messages per second that all producers make together, if the machine can.
        patience: Seconds in which every group has to move after a fault.
        place: What the nodes are.
        among: The nodes that rounds of `kill` and `stop` choose from.
        prepared: Called with the DSN of each broker before anything runs. None: nothing is called.
    """

    rounds: int
    interval: float
    seed: int
    rate: float = 300.0
    spread: Spread = "even"
    faults: tuple[Kind, ...] = ("kill",)
    place: Place = "processes"
    patience: float = 300.0
    engines: tuple[str, ...] = ("sql",)
    page: Path | None = None
    keep: bool = False
    among: tuple[str, ...] = NODES
    protocols: tuple[str, ...] = PROTOCOL_NAMES
    settings: Mapping[str, str | int] | None = None
    prepared: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One round: a kind of fault and the nodes that it hits.

    Attributes:
        how: More about it. `partition`: the nodes that cannot reach the one that is hit. `oneway`: what
            does not pass, in or out. `keep`, `upgrade`, `audit`, `adopt`: what is killed. `clock`: the
            seconds of the step.
    """

    number: int
    kind: Kind
    nodes: tuple[str, ...]
    how: tuple[str, ...] = ()


def schedule(
    seed: int,
    rounds: int,
    faults: Sequence[Kind] = ("kill",),
    among: Sequence[str] = NODES,
    *,
    spread: Spread = "even",
) -> list[Round]:
    """Plan the rounds.

    A round of `kill`, `stop` or `clock` hits k nodes. The kinds take turns in a random order.

    Args:
        spread: "even": each k from 1 to 10 is equally frequent, in a random order, as the text about
            FastMiniMQ asks; a hundred rounds of `kill` are 550 kills. "single": k is 1 but for every
            tenth of these rounds, in which it takes the values 1 to 10, as FastMiniMQ's program does;
            a hundred rounds are 145 kills. "all": all nodes.
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
            if spread == "even" or (spread == "single" and wide % 10 == 0):
                sizes = sizes or rng.sample(range(1, len(among) + 1), len(among))
                count = sizes.pop()
            elif spread == "all":
                count = len(among)
        targets = among if kind in (*_ON_NODES, *CUTS) else BROKERS
        hit = tuple(rng.sample(list(targets), count))
        before = sum(one.kind == kind for one in found)
        found.append(Round(number, kind, hit, _how(rng, kind, before)))
    return found


def _how(rng: random.Random, kind: Kind, before: int) -> tuple[str, ...]:
    """Choose what else there is to choose; `before` counts the earlier rounds of this kind."""
    if kind == "partition":  # some producers and some consumers, and never all of either
        sides = [[name for name in NODES if name.startswith(role)] for role in ("producer", "consumer")]
        return tuple(name for side in sides for name in sorted(rng.sample(side, rng.randint(1, len(side) - 1))))
    if kind in ("keep", "upgrade", "adopt"):
        return (TARGETS[before % len(TARGETS)],)
    if kind == "oneway":
        return (("in", "out")[before % 2],)
    if kind == "audit":
        return ("client",)
    if kind == "clock":
        return (STEPS[before % len(STEPS)],)
    return ()
