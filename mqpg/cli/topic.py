"""`mqpg topic …`: topics and their queues."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.cli.completion import complete_topic
from mqpg.cli.connecting import broker, call, rows
from mqpg.cli.options import Dsn, Json, JsonResult, Yes, confirm, print_result, print_rows
from mqpg.values.choices import OnExpired, TopicKind

__all__ = ["app"]

app = typer.Typer(help="Create, list, alter and drop topics.", no_args_is_help=True)

_LIST = (
    "select topic, kind, queues, justify_hours(retention)::text as retention, paused from mqpg.topics order by topic"
)
_LIST_COLUMNS = ["topic", "kind", "queues", "retention", "paused"]
_DEPTH = "select queue_id, oldest_offset, next_offset from mqpg.queue_depth where topic = %(topic)s order by queue_id"

Name = Annotated[str, typer.Argument(metavar="name", help="Topic.", autocompletion=complete_topic)]
Retention = Annotated[str | None, typer.Option(help="How long messages are stored: a PostgreSQL interval.")]


@app.command()
def create(
    topic: Name,
    queues: Annotated[
        int, typer.Option(help="The number of queues; messages with the same key always take the same queue.")
    ] = 8,
    retention: Retention = "7 days",
    kind: Annotated[
        TopicKind, typer.Option(help="normal, or relay: undecided half messages travel to the consumers.")
    ] = "normal",
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Create a topic. If it exists with the same settings, nothing happens."""
    call("create_topic", **locals())


@app.command("list")
def list_all(json: Json = False, dsn: Dsn = None) -> None:
    """List all topics."""
    with broker(dsn) as mq:
        print_rows(rows(mq, _LIST), _LIST_COLUMNS, as_json=json)


@app.command()
def depth(topic: Name, json: Json = False, dsn: Dsn = None) -> None:
    """Print the oldest and the next offset of each queue of a topic."""
    with broker(dsn) as mq:
        mq.queries.queue_count(topic)
        print_rows(rows(mq, _DEPTH, {"topic": topic}), ["queue_id", "oldest_offset", "next_offset"], as_json=json)


@app.command()
def alter(
    topic: Name,
    retention: Retention = None,
    max_payload: Annotated[int | None, typer.Option(help="The largest payload, in bytes.")] = None,
    message_ttl: Annotated[str | None, typer.Option(help="The age at which unread messages expire; 0: never.")] = None,
    on_expired: Annotated[OnExpired | None, typer.Option(help="What happens to them: skip or dead_letter.")] = None,
    lose_after: Annotated[
        str | None, typer.Option(help="The age at which keep drops messages that a group has not read; 0: never.")
    ] = None,
    lose_over: Annotated[
        int | None,
        typer.Option(help="The size of unread messages, in bytes, beyond which keep drops them; 0: never."),
    ] = None,
    checksums: Annotated[
        bool | None, typer.Option(help="Whether new messages get a checksum, which the audit compares.")
    ] = None,
    queues: Annotated[int | None, typer.Option(help="More queues: a multiple of the present number.")] = None,
    max_bytes: Annotated[
        int | None, typer.Option(help="The size of its stored messages, in bytes, at which sends fail; 0: no limit.")
    ] = None,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Change the given settings of a topic."""
    call("alter_topic", **locals())


@app.command()
def drop(
    topic: Name,
    force: Annotated[bool, typer.Option("--force", help="Also if messages are undelivered or undecided.")] = False,
    yes: Yes = False,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Drop a topic and its subscriptions. Asks on a terminal."""
    confirm(f"Drop topic {topic}, its subscriptions{' and its undelivered messages' if force else ''}?", yes=yes)
    call("drop_topic", json=json, dsn=dsn, topic=topic, force=force)


@app.command()
def purge(topic: Name, yes: Yes = False, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Mark all messages of a topic as consumed. Asks on a terminal."""
    confirm(f"Skip all messages of topic {topic}, for all groups?", yes=yes)
    with broker(dsn) as mq:
        skipped = mq.purge_topic(topic)
    print_result("purge_topic", as_json=json, topic=topic, skipped=skipped)


@app.command()
def pause(topic: Name, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Stop delivery to all groups. Producers can still send."""
    call("pause", **locals())


@app.command()
def resume(topic: Name, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Continue delivery after `pause`."""
    call("resume", **locals())
