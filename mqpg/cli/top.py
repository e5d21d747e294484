"""`mqpg top`: the status of the broker, again and again."""

from __future__ import annotations

import json as json_module
import sys
import time
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json
from mqpg.cli.status import print_status
from mqpg.status import Overview, read_overview

__all__ = ["top"]

_CLEAR = "\x1b[H\x1b[2J"


def top(
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many looks.")] = None,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Show the status again and again, with the rates of each group, until Ctrl-C."""
    before: tuple[float, Overview] | None = None
    with broker(dsn) as mq:
        while True:
            now, found = time.monotonic(), read_overview(partial(rows, mq))
            rates = _rates(before, now, found)
            if json:
                typer.echo(json_module.dumps(asdict(found) | {"lag_change_per_second": rates}, default=str))
            else:
                _show(found, rates)
            before = now, found
            count = None if count is None else count - 1
            if count == 0:
                return
            sys.stdout.flush()
            time.sleep(interval)


def _rates(before: tuple[float, Overview] | None, now: float, found: Overview) -> dict[str, float]:
    """How fast each group's lag grows, in messages a second. Negative: the group catches up."""
    if before is None:
        return {}
    old = {(one["consumer_group"], one["topic"]): one["lag"] for one in before[1].groups}
    return {
        f"{one['consumer_group']} {one['topic']}": round(
            (one["lag"] - old[one["consumer_group"], one["topic"]]) / max(now - before[0], 0.001), 1
        )
        for one in found.groups
        if (one["consumer_group"], one["topic"]) in old
    }


def _show(found: Overview, rates: dict[str, float]) -> None:
    if sys.stdout.isatty():
        typer.echo(_CLEAR, nl=False)
    print_status(found)
    for name, rate in rates.items():
        if rate:
            typer.echo(f"{name}: lag {rate:+,.1f} a second")
