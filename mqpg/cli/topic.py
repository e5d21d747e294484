"""`mqpg topic …`."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.choices import OnExpired, TopicKind
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows

__all__ = ["app"]

app = typer.Typer(help="Topics.", no_args_is_help=True)

_LIST = "select topic, kind, queues, retention::text, paused from mqpg.topics order by topic"
_LIST_COLUMNS = ["topic", "kind", "queues", "retention", "paused"]
_DEPTH = "select queue_id, oldest_offset, next_offset from mqpg.queue_depth where topic = %(topic)s order by queue_id"

Retention = Annotated[str, typer.Option(help="How long messages stay, as a PostgreSQL interval.")]


@app.command()
def create(
    name: str,
    queues: Annotated[int, typer.Option(help="Ordered lanes; a key always takes the same one.")] = 8,
    retention: Retention = "7 days",
    kind: Annotated[
        TopicKind, typer.Option(help="normal, or relay (undecided halves travel to the consumers).")
    ] = "normal",
    dsn: Dsn = None,
) -> None:
    """Create a topic; nothing happens where it is there with the same settings."""
    with broker(dsn) as mq:
        mq.create_topic(name, queues, retention, kind)


@app.command("list")
def list_all(json: Json = False, dsn: Dsn = None) -> None:
    """All topics."""
    with broker(dsn) as mq:
        print_rows(rows(mq, _LIST), _LIST_COLUMNS, as_json=json)


@app.command()
def depth(name: str, json: Json = False, dsn: Dsn = None) -> None:
    """Each queue of a topic, from its oldest offset to its next one."""
    with broker(dsn) as mq:
        mq.queries.queue_count(name)
        print_rows(rows(mq, _DEPTH, {"topic": name}), ["queue_id", "oldest_offset", "next_offset"], as_json=json)


@app.command()
def alter(
    name: str,
    retention: Annotated[str | None, typer.Option(help="How long messages stay.")] = None,
    max_payload: Annotated[int | None, typer.Option(help="Largest payload, in bytes.")] = None,
    message_ttl: Annotated[str | None, typer.Option(help="When unread messages expire; 0 never.")] = None,
    on_expired: Annotated[OnExpired | None, typer.Option(help="skip or dead_letter.")] = None,
    lose_after: Annotated[str | None, typer.Option(help="What groups may lose by age; 0 nothing.")] = None,
    lose_over: Annotated[int | None, typer.Option(help="What groups may lose by bytes unread; 0 nothing.")] = None,
    dsn: Dsn = None,
) -> None:
    """Change what is given."""
    with broker(dsn) as mq:
        mq.alter_topic(
            name,
            retention=retention,
            max_payload=max_payload,
            message_ttl=message_ttl,
            on_expired=on_expired,
            lose_after=lose_after,
            lose_over=lose_over,
        )


@app.command()
def drop(
    name: str,
    force: Annotated[bool, typer.Option("--force", help="Even with something undelivered or undecided.")] = False,
    dsn: Dsn = None,
) -> None:
    """Drop a topic and its subscriptions."""
    with broker(dsn) as mq:
        mq.drop_topic(name, force)


@app.command()
def purge(name: str, dsn: Dsn = None) -> None:
    """Count all that its queues hold as consumed; prints how many deliveries that leaves out."""
    with broker(dsn) as mq:
        typer.echo(mq.purge_topic(name))


@app.command()
def pause(name: str, dsn: Dsn = None) -> None:
    """Stop delivery to everybody; sends go on."""
    with broker(dsn) as mq:
        mq.pause(name)


@app.command()
def resume(name: str, dsn: Dsn = None) -> None:
    """Go on after `pause`."""
    with broker(dsn) as mq:
        mq.resume(name)
