"""What the commands of the lab share: a seed, Ctrl-C, percentiles, and the output of a result."""

from __future__ import annotations

import json
import secrets
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import Any, NoReturn, Protocol

import typer
from rich.console import Console

__all__ = ["Shown", "finish", "interruptible", "new_seed", "percentiles"]

_QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


class Shown(Protocol):
    """The result of a run."""

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""

    def show(self, console: Console) -> None:
        """Print it on a terminal."""


def new_seed(given: int | None) -> int:
    """The seed that was given, or a random one."""
    return secrets.randbelow(1_000_000) if given is None else given


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """The p50, p99 and max of some values, each a value that was seen; nothing if there are none."""
    found = sorted(values)
    return {name: found[ceil(len(found) * q) - 1] for name, q in _QUANTILES.items()} if found else {}


@contextmanager
def interruptible() -> Iterator[Callable[[str], None]]:
    """End with status 130 on Ctrl-C or SIGTERM, after everything in the block is cleaned up.

    Yields:
        A function that prints a line about what happens on stderr.
    """
    console = Console(stderr=True, highlight=False, markup=False)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield console.print
    except KeyboardInterrupt:
        console.print("interrupted: all processes were stopped, all data removed")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def finish(result: Shown, status: int, *, as_json: bool) -> NoReturn:
    """Print a result, and end with a status."""
    if as_json:
        sys.stdout.write(json.dumps(result.as_json(), indent=2, default=str) + "\n")
    else:
        result.show(Console())
    raise typer.Exit(status)
