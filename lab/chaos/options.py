"""The options of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .names import NODES, PROTOCOL_NAMES
from .schedule import Kind

__all__ = ["ENGINES", "Options"]

ENGINES = ("sql", "spark")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line, and some that only tests use.

    Attributes:
        rounds: How many rounds there are.
        interval: The least seconds from one fault to the next one.
        seed: Chooses the schedule.
        rate: Messages per second that all producers make together, if the machine can.
        all_at_once: Kill all ten nodes in every round.
        faults: The kinds of fault, which take turns.
        patience: Seconds in which every group has to move after a fault.
        engines: The engines of `mqpg audit`.
        page: Where the HTML page of the audit is written. None means nowhere.
        keep: Whether the data and the logs remain.
        among: The nodes that rounds of `kill` and `stop` choose from.
        protocols: The protocols of the producers.
        settings: PostgreSQL settings of the brokers' servers.
        prepared: Called with the DSN of each broker before anything runs. None: nothing is called.
    """

    rounds: int
    interval: float
    seed: int
    rate: float = 300.0
    all_at_once: bool = False
    faults: tuple[Kind, ...] = ("kill",)
    patience: float = 300.0
    engines: tuple[str, ...] = ("sql",)
    page: Path | None = None
    keep: bool = False
    among: tuple[str, ...] = NODES
    protocols: tuple[str, ...] = PROTOCOL_NAMES
    settings: Mapping[str, str | int] | None = None
    prepared: Callable[[str], None] | None = None
