"""`mqpg dead-letters …`."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.cli.connecting import broker, show
from mqpg.cli.options import Dsn, Json

__all__ = ["app"]

app = typer.Typer(help="Dead letters of a subscription.", no_args_is_help=True)

_COLUMNS = ["message_id", "queue_id", "key", "payload", "attempts", "reason", "died_at", "consumer"]
_ALL_COLUMNS = [*_COLUMNS, "headers", "tag", "history"]

Group = Annotated[str, typer.Argument(help="Consumer group.")]
Topic = Annotated[str, typer.Argument(help="Topic.")]
Ids = Annotated[list[int] | None, typer.Option("--id", help="Only this message; repeatable.")]
Filter = Annotated[str | None, typer.Option("--filter", help='jsonpath predicate, as "$.amount > 10".')]
Most = Annotated[int | None, typer.Option("--max", min=1, help="Not more than so many, the oldest first.")]


@app.command("list")
def list_some(
    group: Group,
    topic: Topic,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Not more than so many.")] = 100,
    after: Annotated[int | None, typer.Option("--after", help="Go on behind this message id.")] = None,
    after_consumer: Annotated[
        str | None, typer.Option("--after-consumer", help="Whose it was, of a broadcast group.")
    ] = None,
    ids: Ids = None,
    filter: Filter = None,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """The latest first, with the last reason; --json has headers and the history of all attempts too."""
    with broker(dsn) as mq:
        found = mq.dead_letters(group, topic, limit, after, ids or None, filter, after_consumer)
    show(found, _ALL_COLUMNS if json else _COLUMNS, as_json=json)


@app.command()
def redrive(
    group: Group, topic: Topic, ids: Ids = None, filter: Filter = None, most: Most = None, dsn: Dsn = None
) -> None:
    """Send all or some back to the subscription, attempts from 1; prints how many."""
    with broker(dsn) as mq:
        typer.echo(mq.redrive(group, topic, ids or None, filter, most))


@app.command()
def discard(
    group: Group,
    topic: Topic,
    ids: Ids = None,
    filter: Filter = None,
    most: Most = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    dsn: Dsn = None,
) -> None:
    """Take some (or --all) away for good; prints how many."""
    if not (everything or ids or filter or most):
        raise typer.BadParameter("say which ones: --id, --filter, --max or --all")
    with broker(dsn) as mq:
        typer.echo(mq.discard_dead_letters(group, topic, ids or None, filter, most))
