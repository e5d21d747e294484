"""`mqpg find` and `mqpg trace`: one message, by key or by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

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
    columns = ["message_id", "queue_id", "queue_offset", "state", "born_at", "payload"]
    _show(found, columns, f"no message of topic {topic} has this key", as_json=json)


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
    _show(found, ["at", "event", "detail"], f"no message {message_id}", as_json=json)


def _show(found: Sequence[Any], columns: list[str], nothing: str, *, as_json: bool) -> None:
    """Print a listing, or say on stderr that there is nothing. JSON is an empty array then."""
    if found or as_json:
        show(found, columns, as_json=as_json)
    if not found:
        typer.echo(f"mqpg: {nothing}", err=True)
        raise typer.Exit(1)
