"""`mqpg dead-letters …`: messages whose attempts are used up, or that a handler rejected."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.cli.connecting import broker, show
from mqpg.cli.options import Dsn, Filter, Group, Json, JsonResult, Topic, Yes, confirm, print_result

__all__ = ["app"]

app = typer.Typer(help="List, redrive and discard the dead letters of a subscription.", no_args_is_help=True)

_COLUMNS = ["message_id", "queue_id", "key", "payload", "attempts", "reason", "died_at", "consumer"]
_ALL_COLUMNS = [*_COLUMNS, "headers", "tag", "history"]

Ids = Annotated[list[int] | None, typer.Option("--id", help="Only the message with this id; may be repeated.")]
Most = Annotated[int | None, typer.Option("--max", min=1, help="At most this number of messages, the oldest first.")]


@app.command("list")
def list_some(
    group: Group,
    topic: Topic,
    limit: Annotated[int, typer.Option("--limit", min=1, help="List at most this number of messages.")] = 100,
    after: Annotated[
        int | None, typer.Option("--after", help="Continue behind this message id (the last one listed).")
    ] = None,
    after_consumer: Annotated[
        str | None, typer.Option("--after-consumer", help="In a broadcast group, the consumer of that last message.")
    ] = None,
    ids: Ids = None,
    filter: Filter = None,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """List dead letters, the latest first, with the last reason.

    --json also prints the headers and the history of all attempts.
    """
    with broker(dsn) as mq:
        found = mq.dead_letters(group, topic, limit, after, ids or None, filter, after_consumer)
    show(found, _ALL_COLUMNS if json else _COLUMNS, as_json=json)
    if len(found) == limit and not json:
        consumer = f" --after-consumer {found[-1].consumer}" if found[-1].consumer else ""
        typer.echo(f"the latest {limit:,}; those before them: --after {found[-1].message_id}{consumer}")


@app.command()
def redrive(
    group: Group,
    topic: Topic,
    ids: Ids = None,
    filter: Filter = None,
    most: Most = None,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Deliver dead letters again, counting their attempts from 1.

    Without --id, --filter and --max all of them are delivered again.
    """
    with broker(dsn) as mq:
        count = mq.redrive(group, topic, ids or None, filter, most)
    facts = {"consumer_group": group, "topic": topic, "messages": count, "message_ids": ids or None}
    print_result("redrive", as_json=json, **facts)


@app.command()
def discard(
    group: Group,
    topic: Topic,
    ids: Ids = None,
    filter: Filter = None,
    most: Most = None,
    everything: Annotated[bool, typer.Option("--all", help="Discard all of them.")] = False,
    yes: Yes = False,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Delete dead letters for good. Asks on a terminal."""
    if not (everything or ids or filter or most):
        raise typer.BadParameter("choose the dead letters by --id, --filter or --max, or discard all with --all")
    confirm(f"Delete these dead letters of group {group} in topic {topic} for good?", yes=yes)
    with broker(dsn) as mq:
        count = mq.discard_dead_letters(group, topic, ids or None, filter, most)
    facts = {"consumer_group": group, "topic": topic, "messages": count, "message_ids": ids or None}
    print_result("discard_dead_letters", as_json=json, **facts)
