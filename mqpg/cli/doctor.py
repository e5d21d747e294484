"""`mqpg doctor`: what is wrong with the server, the broker and this machine, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import entry_points

import typer

import mqpg
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows
from mqpg.schema import migrate
from mqpg.status import Finding, check_server, findings, read_overview
from mqpg.values import errors

__all__ = ["doctor"]

_CHECKS = "mqpg.checks"  # entry points: functions that return findings


def doctor(json: Json = False, dsn: Dsn = None) -> None:
    """Look for what is wrong: settings, versions, clock, locks, old transactions, workers, Java.

    Exit status 1 where something is.
    """
    with broker(dsn) as mq:
        found = [*check_server(partial(rows, mq)), *_schema(mq), *_broker(mq), *_machine()]
    if json:
        print_rows([asdict(one) for one in found], ["check"], as_json=True)
    else:
        for one in found:
            typer.echo(f"{'ok' if one.ok else '!!':<3} {one.check}: {one.found}" + _then(one))
    if not all(one.ok for one in found):
        raise typer.Exit(1)


def _then(one: Finding) -> str:
    return f"\n    {one.remedy}" if one.remedy else ""


def _schema(mq: mqpg.Client) -> Iterator[Finding]:
    """The schema's version, and what a restore or another owner left behind."""
    info = mq.info()
    yield Finding("schema", True, f"release {info.schema_version}, broker {info.broker_id}")
    for line in migrate.problems(mq.dsn, if_allowed=True):
        what, _, command = line.partition(": ")
        yield Finding("schema", False, what, command or None)


def _machine() -> Iterator[Finding]:
    """What other parts of mqpg need on this machine."""
    for entry in entry_points(group=_CHECKS):
        yield from entry.load()()


def _broker(mq: mqpg.Client) -> Iterator[Finding]:
    """Workers, locks of strangers, and everything else that `mqpg status` says."""
    try:
        # What check_server looks at as well is said once.
        found = findings(replace(read_overview(partial(rows, mq)), moment=[]))
    except errors.NotGranted as error:
        yield Finding("broker", False, str(error), "ask for the right operator or auditor")
        return
    yield from found or [Finding("broker", True, "nothing needs attention")]
