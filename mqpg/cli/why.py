"""`mqpg why`: what holds a message, a half message or a consumer group up."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mqpg.cause import Cause
from mqpg.cli.completion import complete_topic
from mqpg.cli.connecting import broker
from mqpg.cli.options import Dsn, Json, print_rows
from mqpg.cli.remedies import remedy

__all__ = ["why"]


def why(
    about: Annotated[str, typer.Argument(help="A message id, a handle, or, with TOPIC, a consumer group.")],
    topic: Annotated[
        str | None, typer.Argument(help="The topic that the group reads.", autocompletion=complete_topic)
    ] = None,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Say what holds a message, a half message or a group up, and what would move it.

    Exit status 1 where something does.
    """
    with broker(dsn) as mq:
        if topic is None and not about.isdecimal() and "." not in about:
            raise typer.BadParameter(f"{about!r} is no message id and no handle; for a group: mqpg why GROUP TOPIC")
        if topic is None and about.isdecimal():
            found = mq.why(int(about))
            name = _topic(mq, int(about)) if found else None
        else:
            found, name = mq.why(about, topic), topic
    listed = [_row(one, remedy(one, name)) for one in found]
    if json:
        print_rows(listed, ["cause"], as_json=True)
    else:
        for row in listed:
            facts = ", ".join(f"{key} {value}" for key, value in row["detail"].items())
            typer.echo(f"{row['cause']}: {row['remedy']}" + (f"\n    {facts}" if facts else ""))
        if not listed:
            typer.echo("nothing holds it up")
    if listed:
        raise typer.Exit(1)


def _row(cause: Cause, text: str) -> dict[str, Any]:
    return {"cause": cause.cause, "detail": cause.detail, "remedy": text}


def _topic(mq: Any, message_id: int) -> str | None:
    """The name of the topic of a message. None where the history does not tell."""
    for event in mq.trace(message_id):
        if event.event in ("born", "prepared"):
            name: str | None = event.detail.get("topic")
            return name
    return None
