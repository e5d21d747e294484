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
        interval: The least seconds from one fault to the next one.
        rate: Messages per second that all producers make together, if the machine can.
        patience: Seconds in which every group has to move after a fault.
        among: The nodes that rounds of `kill` and `stop` choose from.
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
