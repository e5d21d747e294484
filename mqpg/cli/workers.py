"""`mqpg worker list`: the processes that report to the broker."""

from __future__ import annotations

from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import print_rows

__all__ = ["list_workers"]

_COLUMNS = ["role", "state", "alive", "host", "pid", "started_at", "seen_at", "detail"]
_LIST = f"""
    select {", ".join("w." + column for column in _COLUMNS)} from mqpg.worker_status as w
    order by w.alive desc, w.role, w.seen_at desc
"""


def list_workers(dsn: str | None, *, as_json: bool) -> None:
    """Print the worker processes, those that are alive first.

    Args:
        dsn: The broker's database. None: the sources that `mqpg.connect` names.
        as_json: Print a JSON array instead of a table.
    """
    with broker(dsn) as mq:
        print_rows(rows(mq, _LIST), _COLUMNS, as_json=as_json)
