"""`mqpg worker list`: the processes that report to the broker."""

from __future__ import annotations

from functools import partial

import typer

from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import print_rows, printable
from mqpg.status.finding import Row
from mqpg.status.workers import in_words, missing_roles

__all__ = ["list_workers"]

_COLUMNS = ["role", "state", "alive", "host", "pid", "started_at", "seen_at", "detail"]
_LIST = f"""
    select {", ".join("w." + column for column in _COLUMNS)} from mqpg.worker_status as w
    order by w.alive desc, w.role, w.seen_at desc
"""


def list_workers(dsn: str | None, *, as_json: bool) -> None:
    """Print the worker processes, those that are alive first, and the roles that no process leads.

    Args:
        dsn: The broker's database. None: the sources that `mqpg.connect` names.
        as_json: Print a JSON array instead of a table.
    """
    with broker(dsn) as mq:
        found, missing = rows(mq, _LIST), missing_roles(partial(rows, mq))
    listed = [_missing(one, as_json) for one in missing] + [one if as_json else one | _readable(one) for one in found]
    print_rows(listed, _COLUMNS, as_json=as_json)
    if not as_json:
        for one in missing:
            typer.echo(f"! {printable(one['said'])}")


def _missing(one: Row, as_json: bool) -> Row:
    """The row of a role without a process at work: where and when one was seen last."""
    known = {name: one[name] for name in ("role", "host", "pid", "started_at", "seen_at")}
    return dict.fromkeys(_COLUMNS) | {"state": "missing", "alive": False if as_json else "no"} | known


def _readable(one: Row) -> Row:
    detail = {name: value for name, value in one["detail"].items() if name != "clock"}
    return {"detail": in_words(detail), "alive": "yes" if one["alive"] else "no"}
