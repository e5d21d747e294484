"""`mqpg uninstall`: the schema is dropped, with all messages."""

from __future__ import annotations

from typing import Annotated

import psycopg
import typer

from mqpg.cli.options import Dsn, JsonResult, print_result
from mqpg.connection import dsn as dsns
from mqpg.embedded import locate
from mqpg.schema import removal

__all__ = ["uninstall"]


def uninstall(
    dsn: Dsn = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Drop undelivered messages, too, and while workers run.")
    ] = False,
    json: JsonResult = False,
) -> None:
    """Drop the schemas mqpg and mqpg_audit with all messages, and what mqpg made in pgmq.

    It refuses while messages are undelivered or workers run. Roles and the tables of mqpg in your
    own schemas remain.
    """
    where = locate.resolve(dsn)
    with psycopg.connect(where, client_encoding="utf8") as connection:
        left = removal.unfinished(connection)
        connection.rollback()
        removal.require_nothing_left(left, force=force)
        if not yes:
            lost = f" {', '.join(left)} are lost." if left else ""
            typer.confirm(f"Drop mqpg from {dsns.describe(where)}?{lost}", abort=True, err=True)
        done = removal.remove(connection, force=force)
    name = dsns.describe(where)
    print_result("uninstall", "\n".join([f"{name}:", *done]), as_json=json, database=name, done=done)
