"""`mqpg status`: the state of the broker at a glance, again and again, or its worker processes."""

from __future__ import annotations

import json as json_module
import sys
import time
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

import mqpg
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows, printable, say
from mqpg.status import Overview, advice, findings, read_overview
from mqpg.status.finding import Row
from mqpg.status.workers import in_words, missing_roles
from mqpg.values.errors import ConfigurationError, ConnectionFailed
from mqpg.values.words import duration, size

__all__ = ["status"]

# The title of each part of the overview, and its columns.
_SECTIONS = {
    "workers": ("workers", "role alive active seen_seconds_ago"),
    "groups": (
        "consumer groups",
        "consumer_group topic mode lag claims oldest_unread_seconds dead_letters consumers paused",
    ),
    "half_messages": ("half messages", "producer_group pending overdue parked"),
    "pins": ("segments kept by unread messages", "consumer_group topic segments messages bytes seconds"),
    "blocked": ("segments held up", "table_name state seconds blocked_by"),
    "losses": ("losses within a day", "consumer_group topic why messages latest"),
}
_PROCESS = ["role", "state", "alive", "host", "pid", "started_at", "seen_at", "detail"]
_PROCESSES = f"""
    select {", ".join("w." + column for column in _PROCESS)} from mqpg.worker_status as w
    order by w.alive desc, w.role, w.seen_at desc
"""
_CLEAR = "\x1b[H\x1b[2J"

Watch = Annotated[bool, typer.Option("--watch", help="Show it again and again, with the rate of each lag.")]
Interval = Annotated[
    float, typer.Option("--interval", min=0.1, max=86400, help="Seconds between two times, with --watch.")
]
Count = Annotated[int | None, typer.Option("--count", "-n", min=1, help="How many times, with --watch.")]
Workers = Annotated[bool, typer.Option("--workers", help="List the worker processes, and the roles without one.")]


def status(
    watch: Watch = False,
    interval: Interval = 2.0,
    count: Count = None,
    workers: Workers = False,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Show workers, lags, half messages, dead letters and what is held up, and what to do about it.

    What needs attention stands below, the most urgent first, with the command that shows more. Exit
    status 1 if something does. With --watch it continues until Ctrl-C.
    """
    if watch and workers:
        raise ConfigurationError("--watch and --workers exclude each other")
    with broker(dsn) as mq:
        if workers:
            _list_processes(mq, as_json=json)
        elif watch:
            _watch(mq, interval, count, as_json=json)
        elif not _is_well(mq, as_json=json):
            raise typer.Exit(1)


def _is_well(mq: mqpg.Client, *, as_json: bool) -> bool:
    """Print the overview, and say whether nothing needs attention."""
    found = read_overview(partial(rows, mq))
    todo = findings(found)
    if as_json:
        typer.echo(json_module.dumps(_facts(found), default=str, indent=2))
    else:
        _print_overview(found)
    return not todo


def _facts(found: Overview) -> dict[str, Any]:
    """The overview, and what it says, for JSON."""
    return asdict(found) | {"attention": advice(found), "findings": [asdict(one) for one in findings(found)]}


def _print_overview(found: Overview) -> None:
    """Print tables, and what needs attention below them, the most urgent first."""
    todo = findings(found)
    one = found.broker
    where = f"broker {one['broker_id']}, incarnation {one['incarnation']}"
    typer.echo(f"{where}, mqpg {one['release']}, {size(one['bytes'])} stored{_days_left(found)}")
    for name, (title, columns) in _SECTIONS.items():
        listed: list[Row] = getattr(found, name)
        if listed:
            typer.echo(f"\n{title}")
            print_rows(listed, columns.split(), as_json=False)
    typer.echo()
    for trouble in todo:
        typer.echo(f"! {printable(f'{trouble.found}: {trouble.remedy}')}")
        if trouble.look:
            typer.echo(f"    {printable(trouble.look)}")
    typer.echo("mqpg why explains all of it" if todo else "nothing needs attention")


def _days_left(found: Overview) -> str:
    """In how many days the broker or a topic reaches its `max_bytes`, whichever comes first."""
    for one in found.growth:
        if one["days_left"] is not None:
            what = f"topic {one['topic']} reaches" if one["topic"] else "it reaches"
            return printable(f"; {what} max_bytes in about {duration(one['days_left'] * 86400)}")
    return ""


def _watch(mq: mqpg.Client, interval: float, count: int | None, *, as_json: bool) -> None:
    before: tuple[float, Overview] | None = None
    while True:
        try:
            now, found = time.monotonic(), read_overview(partial(rows, mq))
        except ConnectionFailed as error:
            if before is None:
                raise
            say(f"mqpg: {' '.join(str(error).split())}; again in {interval:g} s", err=True)
        else:
            rates = _rates(before, now, found)
            if as_json:
                typer.echo(json_module.dumps(_facts(found) | {"lag_change_per_second": rates}, default=str))
            else:
                _print_again(found, rates)
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


def _print_again(found: Overview, rates: dict[str, float]) -> None:
    if sys.stdout.isatty():
        typer.echo(_CLEAR, nl=False)
    _print_overview(found)
    for name, rate in rates.items():
        if rate:
            typer.echo(f"{name}: lag {rate:+,.1f} a second")


def _list_processes(mq: mqpg.Client, *, as_json: bool) -> None:
    """Print the roles that no process leads, and the processes, those that are alive first."""
    found, missing = rows(mq, _PROCESSES), missing_roles(partial(rows, mq))
    listed = [_missing(one, as_json) for one in missing] + [one if as_json else one | _readable(one) for one in found]
    print_rows(listed, _PROCESS, as_json=as_json)
    if not as_json:
        for one in missing:
            typer.echo(f"! {printable(one['said'])}")


def _missing(one: Row, as_json: bool) -> Row:
    """The row of a role without a process at work: where and when one was seen last."""
    known = {name: one[name] for name in ("role", "host", "pid", "started_at", "seen_at")}
    return dict.fromkeys(_PROCESS) | {"state": "missing", "alive": False if as_json else "no"} | known


def _readable(one: Row) -> Row:
    detail = {name: value for name, value in one["detail"].items() if name != "clock"}
    return {"detail": in_words(detail), "alive": "yes" if one["alive"] else "no"}
