"""`mqpg why`: what holds a message, a half message or a consumer group up."""

from __future__ import annotations

import json as json_module
import re
from dataclasses import asdict
from typing import Annotated, Any

import typer

import mqpg
from mqpg.cli.completion import complete_topic
from mqpg.cli.connecting import broker
from mqpg.cli.names import readers, topic_of, unknown_group, unknown_topic
from mqpg.cli.options import Dsn, Json, print_rows, printable
from mqpg.cli.stuck import described, everything_stuck
from mqpg.connection.lockers import reading
from mqpg.status.merging import merged
from mqpg.values.cause import Cause
from mqpg.values.errors import UnknownHandle, UnknownTopic

__all__ = ["why"]

_FRACTION = re.compile(r"(?<=^\d{4}-\d\d-\d\dT)(\d\d:\d\d:\d\d)\.\d+(?=[+-]\d\d:\d\d$)")


def why(
    about: Annotated[
        str | None,
        typer.Argument(help="A message id, a handle, or a consumer group. Without one: all that is stuck."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Argument(
            help="The topic that the group reads. It may be left out if there is only one.",
            autocompletion=complete_topic,
        ),
    ] = None,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Say what holds a message, a half message or a group up, and what would move it.

    Without arguments it explains everything that is stuck now. Exit status 1 if something is.
    """
    if about is None:
        _everything(as_json=json, dsn=dsn)
        return
    with broker(dsn) as mq:
        found = _ask(mq, about, topic)
    if json:
        print_rows([described(one) for one in found], ["cause"], as_json=True)
    else:
        _print([described(one) for one in merged(found)])
        if not found:
            typer.echo("nothing holds it up")
    if found:
        raise typer.Exit(1)


def _ask(mq: mqpg.Client, about: str, topic: str | None) -> list[Cause]:
    """Ask the broker. An unknown name gets similar ones."""
    if topic is not None:
        try:
            return _why(mq, about, topic)
        except UnknownTopic as error:
            raise unknown_topic(mq, topic) from error
    if about.isdecimal():
        return _why(mq, int(about))
    if "." in about:  # as in every handle, and in names of some groups
        try:
            return _why(mq, about)
        except UnknownHandle:
            if (name := topic_of(mq, about)) is None:
                raise
    elif (name := topic_of(mq, about)) is None:
        more = readers(mq, about) or unknown_group(mq, about)
        raise typer.BadParameter(
            f"{about!r} is no message id, no handle, and no group that reads a topic" + (f"; {more}" if more else "")
        )
    return _why(mq, about, name)


def _why(mq: mqpg.Client, about: int | str, topic: str | None = None) -> list[Cause]:
    with reading(mq.transaction) as conn:
        return mq.why(about, topic, conn=conn)


def _everything(*, as_json: bool, dsn: str | None) -> None:
    with broker(dsn) as mq:
        stuck = list(everything_stuck(mq))
    if as_json:
        print_rows([asdict(one) for one in stuck], ["found"], as_json=True)
    else:
        for one in stuck:
            typer.echo(f"! {printable(f'{one.found}: {one.advice}' if one.advice else one.found)}")
            _print(one.causes, "    ")
        if not stuck:
            typer.echo("nothing is stuck")
    if stuck:
        raise typer.Exit(1)


def _print(causes: list[dict[str, Any]], margin: str = "") -> None:
    for row in causes:
        typer.echo(f"{margin}{row['cause']}: {printable(row['advice'])}")
        if row["detail"]:
            facts = ", ".join(f"{key} {_fact(value)}" for key, value in row["detail"].items())
            typer.echo(f"{margin}    {printable(facts)}")


def _fact(value: object) -> object:
    """A list without brackets, and a time without its fraction."""
    if isinstance(value, list):
        return ", ".join(str(_fact(one)) for one in value)
    if isinstance(value, dict):
        return json_module.dumps(value)
    return _FRACTION.sub(r"\1", value) if isinstance(value, str) else value
