"""`mqpg settings`: the settings of the broker."""

from __future__ import annotations

import typer

from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows

__all__ = ["settings"]

_SETTINGS = "select s.* from mqpg_audit.setting as s order by s.name"


def settings(json: Json = False, dsn: Dsn = None) -> None:
    """List the settings of the broker. The owner of the schema and auditors may."""
    with broker(dsn) as mq:
        found = rows(mq, _SETTINGS)
    if not found:
        raise typer.Exit(1)
    print_rows(found, list(found[0]), as_json=json)
