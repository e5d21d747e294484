"""`mqpg doctor`: what is wrong with the server, the broker and this machine, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import entry_points
from typing import Annotated

import typer

import mqpg
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows, printable
from mqpg.cli.sentences import DAMAGED
from mqpg.embedded import locate
from mqpg.schema import migrate
from mqpg.status import Finding, check_server, findings, read_overview
from mqpg.values import errors
from mqpg.values.translation import is_undefined

__all__ = ["doctor"]

_CHECKS = "mqpg.checks"  # entry points: functions that return findings


def doctor(
    schema: Annotated[bool, typer.Option("--schema", help="Look only at the schema, such as after a restore.")] = False,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Look for what is wrong: settings, schema, clock, locks, old transactions, workers, Java.

    Of the schema it says what a restore, another owner or an interrupted upgrade left behind. Exit
    status 1 if anything is wrong.
    """
    where = locate.resolve(dsn)
    found = list(_schema(where))
    if not schema:
        try:
            with broker(where) as mq:
                machine = [one for entry in entry_points(group=_CHECKS) for one in entry.load()()]
                found = [*check_server(partial(rows, mq)), *found, *_broker(mq), *machine]
        except errors.Error as error:
            if not is_undefined(error):
                raise
            found.append(Finding("broker", False, str(error), DAMAGED))
    if json:
        print_rows([asdict(one) for one in found], ["check"], as_json=True)
    else:
        for one in found:
            typer.echo(f"{'ok' if one.ok else '!!':<3} {one.check}: {printable(one.found)}")
            if one.remedy:
                typer.echo(f"    {printable(one.remedy)}")
    if not all(one.ok for one in found):
        raise typer.Exit(1)


def _schema(dsn: str) -> Iterator[Finding]:
    """The schema's version, and what a restore or another owner left behind."""
    installed = migrate.status(dsn)
    yield Finding("schema", True, f"release {installed.release}, migration {installed.current}")
    for line in migrate.problems(dsn):
        what, _, command = line.partition(": ")
        yield Finding("schema", False, what, command or None)


def _broker(mq: mqpg.Client) -> Iterator[Finding]:
    """Workers, locks of strangers, and everything else that `mqpg status` says."""
    try:
        # What check_server looks at as well is said once.
        found = findings(replace(read_overview(partial(rows, mq)), moment=[]))
    except errors.NotGranted as error:
        yield Finding("broker", False, str(error), "ask for the right operator or auditor")
        return
    yield from found or [Finding("broker", True, "nothing needs attention")]
