"""`mqpg subscription …`: which consumer group reads which topic."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.choices import Mode, OnFailure
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Filter, Group, Json, Topic, print_rows

__all__ = ["app"]

app = typer.Typer(help="Manage subscriptions: which consumer group reads which topic.", no_args_is_help=True)

_COLUMNS = ["consumer_group", "topic", "mode", "on_failure", "filter", "tags", "max_attempts", "retry_delay", "paused"]
_LIST = """
    select s.consumer_group, s.topic_name as topic, s.mode, s.on_failure, s.filter, s.tags, s.max_attempts,
        s.retry_delay, s.paused
    from mqpg._subscriptions(%(topic)s::text) s
"""
_LAG_COLUMNS = ["queue_id", "committed", "next_offset", "lag", "claims", "owner", "changed_at"]
_LAG = """
    select queue_id, committed, next_offset, lag, claims, owner, date_trunc('second', changed_at)::text as changed_at
    from mqpg.subscription_lag where consumer_group = %(group)s and topic = %(topic)s
    order by owner nulls first, queue_id
"""

Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only messages with this tag; may be repeated.")]
Attempts = Annotated[int | None, typer.Option(help="Deliveries after which a failed message becomes a dead letter.")]
Delay = Annotated[
    str | None, typer.Option(help="How long to wait before the second attempt; doubled for each further one.")
]
OnFailureOption = Annotated[
    OnFailure | None, typer.Option(help="What a failed message holds back: skip (nothing), block_key or block_queue.")
]
Queue = Annotated[int | None, typer.Option("--queue", help="Only this queue; -1 is the retry lane.")]
Consumer = Annotated[str | None, typer.Option("--consumer", help="Only the queues or the position of this consumer.")]


@app.command("list")
def list_all(
    topic: Annotated[str | None, typer.Option("--topic", help="Only subscriptions of this topic.")] = None,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """List all subscriptions."""
    with broker(dsn) as mq:
        print_rows(rows(mq, _LIST, {"topic": topic}), _COLUMNS, as_json=json)


@app.command()
def lag(group: Group, topic: Topic, json: Json = False, dsn: Dsn = None) -> None:
    """Print how far a group has read each queue. Queue -1 is its retry lane."""
    with broker(dsn) as mq:
        mq.queries.require_subscription(group, topic)
        print_rows(rows(mq, _LAG, {"group": group, "topic": topic}), _LAG_COLUMNS, as_json=json)


@app.command()
def add(
    group: Group,
    topic: Topic,
    mode: Annotated[
        Mode, typer.Option(help="How consumers share queues: exclusive, shared, pinned or broadcast.")
    ] = "exclusive",
    start: Annotated[str, typer.Option(help="Where to begin: earliest, latest or a time.")] = "earliest",
    filter: Filter = None,
    tags: Tags = None,
    max_attempts: Annotated[
        int, typer.Option(help="Deliveries after which a failed message becomes a dead letter.")
    ] = 16,
    retry_delay: Annotated[
        str, typer.Option(help="How long to wait before the second attempt; doubled for each further one.")
    ] = "10 s",
    on_failure: Annotated[
        OnFailure, typer.Option(help="What a failed message holds back: skip (nothing), block_key or block_queue.")
    ] = "skip",
    dsn: Dsn = None,
) -> None:
    """Subscribe a consumer group.

    Where it is subscribed with the same settings, nothing happens.
    """
    with broker(dsn) as mq:
        mq.subscribe(group, topic, mode, start, filter, tags or None, max_attempts, retry_delay, on_failure)


@app.command()
def alter(
    group: Group,
    topic: Topic,
    mode: Annotated[Mode | None, typer.Option(help="exclusive or shared; the other modes cannot change.")] = None,
    filter: Filter = None,
    tags: Tags = None,
    any_tag: Annotated[bool, typer.Option("--any-tag", help="Deliver messages with any tag, or none.")] = False,
    max_attempts: Attempts = None,
    retry_delay: Delay = None,
    on_failure: OnFailureOption = None,
    dsn: Dsn = None,
) -> None:
    """Change the given settings of a subscription. `--filter true` removes the filter."""
    with broker(dsn) as mq:
        mq.alter_subscription(
            group,
            topic,
            max_attempts=max_attempts,
            retry_delay=retry_delay,
            filter=filter,
            tags=[] if any_tag else tags or None,
            on_failure=on_failure,
            mode=mode,
        )


@app.command()
def remove(group: Group, topic: Topic, consumer: Consumer = None, dsn: Dsn = None) -> None:
    """Unsubscribe a group, and delete its positions, retries and dead letters.

    --consumer removes only that consumer of a broadcast group.
    """
    with broker(dsn) as mq:
        mq.unsubscribe(group, topic, consumer)


@app.command()
def pause(group: Group, topic: Topic, dsn: Dsn = None) -> None:
    """Stop delivery of a topic to this group."""
    with broker(dsn) as mq:
        mq.pause(topic, group)


@app.command()
def resume(group: Group, topic: Topic, dsn: Dsn = None) -> None:
    """Continue delivery after `pause`."""
    with broker(dsn) as mq:
        mq.resume(topic, group)


@app.command()
def seek(
    group: Group,
    topic: Topic,
    target: Annotated[str, typer.Argument(help="earliest, latest, a time, or an offset (with --queue).")],
    queue: Queue = None,
    consumer: Consumer = None,
    dsn: Dsn = None,
) -> None:
    """Move a group to another position. Its open deliveries can no longer be acknowledged."""
    with broker(dsn) as mq:
        mq.seek(group, topic, target, queue, consumer=consumer)


@app.command()
def unpin(group: Group, topic: Topic, queue: Queue = None, consumer: Consumer = None, dsn: Dsn = None) -> None:
    """Take pinned queues away from their consumers: one queue or all, of one consumer or of all.

    Do this only when the consumer is gone for good, or its database has moved. The next consumer
    must have its offsets.
    """
    with broker(dsn) as mq:
        mq.unpin(group, topic, queue, consumer)
