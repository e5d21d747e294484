"""`mqpg find` and `mqpg trace`: one message, by key or by id."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.cli.connecting import broker, show
from mqpg.cli.options import Dsn, Json

__all__ = ["find", "trace"]


def find(
    topic: Annotated[str, typer.Argument(help="Topic.")],
    key: Annotated[str, typer.Argument(help="The key of the messages.")],
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Find messages by key, also undecided, delayed and not yet appended ones.

    Exit status 1 where there are none.
    """
    with broker(dsn) as mq:
        found = mq.find_by_key(topic, key)
    show(found, ["message_id", "queue_id", "queue_offset", "state", "born_at", "payload"], as_json=json)
    if not found:
        raise typer.Exit(1)


def trace(
    message_id: Annotated[int, typer.Argument(help="Message id.")],
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """List the events of a message: prepared, decided, appended, delivered, retried, dead letter.

    Exit status 1 where there is no such message.
    """
    with broker(dsn) as mq:
        found = mq.trace(message_id)
    show(found, ["at", "event", "detail"], as_json=json)
    if not found:
        typer.echo(f"mqpg: no message {message_id}", err=True)
        raise typer.Exit(1)
