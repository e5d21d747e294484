"""`mqpg subscription …`: which consumer group reads which topic."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

import typer

import mqpg
from mqpg.cli.connecting import broker, call, rows
from mqpg.cli.options import (
    Dsn,
    Filter,
    Group,
    Json,
    JsonResult,
    Topic,
    Yes,
    confirm,
    print_result,
    print_rows,
    warn_of_password,
)
from mqpg.status import seeking
from mqpg.status.finding import Row
from mqpg.values.choices import Mode, OnFailure, WithoutJournal
from mqpg.values.errors import ConfigurationError
from mqpg.values.words import counted

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

_SYNC_COLUMNS = ["consumer_group", "topic", "option", "before", "now", "handler"]
_REALIGNED_COLUMNS = ["queue_id", "from_offset", "to_offset", "next_offset", "journaled"]

Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only messages with this tag; may be repeated.")]
Attempts = Annotated[int | None, typer.Option(help="Deliveries after which a failed message becomes a dead letter.")]
Delay = Annotated[
    str | None, typer.Option(help="How long to wait before the second attempt; doubled for each further one.")
]
OnFailureOption = Annotated[
    OnFailure | None, typer.Option(help="What a failed message holds back: skip (nothing), block_key or block_queue.")
]
Queue = Annotated[int | None, typer.Option("--queue", help="Only this queue; -1 is the retry lane.")]
Database = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="MQPG_CONSUMER_DATABASE",
        help="The consumer's own database: a SQLAlchemy URL.",
        callback=warn_of_password,
    ),
]
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
    consumer_group: Group,
    topic: Topic,
    mode: Annotated[
        Mode, typer.Option(help="How consumers share queues: exclusive, shared, pinned or broadcast.")
    ] = "exclusive",
    start: Annotated[
        str, typer.Option(help="Where to begin: earliest, latest or a time with its zone (2026-12-01 10:00Z).")
    ] = "earliest",
    filter: Filter = None,
    tags: Tags = None,
    max_attempts: Attempts = 16,
    retry_delay: Delay = "10 s",
    on_failure: OnFailureOption = "skip",
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Subscribe a consumer group.

    If it is subscribed with the same settings, nothing happens.
    """
    call("subscribe", **locals() | {"tags": tags or None})


@app.command()
def alter(
    consumer_group: Group,
    topic: Topic,
    mode: Annotated[Mode | None, typer.Option(help="exclusive or shared; the other modes cannot change.")] = None,
    filter: Filter = None,
    tags: Tags = None,
    any_tag: Annotated[bool, typer.Option("--any-tag", help="Deliver messages with any tag, or none.")] = False,
    max_attempts: Attempts = None,
    retry_delay: Delay = None,
    on_failure: OnFailureOption = None,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Change the given settings of a subscription. `--filter true` removes the filter."""
    given = locals() | {"tags": [] if any_tag else tags or None}
    del given["any_tag"]
    call("alter_subscription", **given)


@app.command()
def sync(
    handlers: Annotated[
        str, typer.Argument(metavar="MODULE[:NAME]", help="A consumer, or a module: all consumers in it.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what it would change.")] = False,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Give subscriptions the options that the decorators of their consumers have.

    A subscription that is missing is created, unless its consumer has subscribe=False. All is
    changed, or nothing if there is an error.
    """
    from mqpg.application import find_consumers  # needs SQLAlchemy

    found: dict[tuple[str, str], Row] = {}
    changes: list[Row] = []
    with broker(dsn) as mq, mq.transaction() as conn:
        for target, consumer in find_consumers(handlers).items():
            options = consumer.options
            demands_mode = options.mode is not None or options.database is not None
            wanted = {**options.of_subscription, "mode": options.wanted_mode if demands_mode else None}
            about = {"consumer_group": options.group, "topic": options.topic, "handler": target}
            other = found.setdefault((options.group, options.topic), {**about, "wanted": wanted})
            if other["wanted"] != wanted:
                raise ConfigurationError(
                    f"{target} and {other['handler']} have other options for group {options.group} of {options.topic}"
                )
            if options.subscribe and other["handler"] == target:
                changed = _synchronize(mq, options, wanted, None if dry_run else conn)
                changes += [about | dict(zip(_SYNC_COLUMNS[2:5], one, strict=True)) for one in changed]
    if json or changes:
        print_rows(changes, _SYNC_COLUMNS, as_json=json)
    if not json:
        verb = "would change" if dry_run else "changed"
        typer.echo(f"{verb} {counted(len(changes), 'option')}" if changes else "every subscription is as its decorator")


def _synchronize(mq: mqpg.Client, options: Any, wanted: Row, conn: Any) -> list[tuple[str, str, str]]:
    """Change a subscription, unless `conn` is None. Returns each option, what it was and what it is."""
    group, topic = options.group, options.topic
    mode = mq.queries.subscription_mode(group, topic)
    if mode is None:
        if conn is not None:
            mq.subscribe(group, topic, options.wanted_mode, options.start, **options.of_subscription, conn=conn)
        return [("mode", "not subscribed", options.wanted_mode)]
    changes = mq.queries.subscription_differences(group, topic, **options.of_subscription)
    if wanted["mode"] not in (None, mode):
        changes.append(("mode", mode, wanted["mode"]))
    if changes and conn is not None:
        none = {"filter": wanted["filter"] or "true", "tags": wanted["tags"] or []}
        mq.alter_subscription(group, topic, **wanted | none, conn=conn)
    return changes


@app.command()
def remove(
    group: Group,
    topic: Topic,
    consumer: Consumer = None,
    yes: Yes = False,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Unsubscribe a group, and delete its positions, retries and dead letters. Asks on a terminal.

    --consumer removes only that consumer of a broadcast group.
    """
    who = f"group {group}" if consumer is None else f"consumer {consumer} of group {group}"
    confirm(f"Delete the positions, retries and dead letters of {who} in topic {topic} for good?", yes=yes)
    call("unsubscribe", json=json, dsn=dsn, consumer_group=group, topic=topic, consumer=consumer)


@app.command()
def pause(consumer_group: Group, topic: Topic, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Stop delivery of a topic to this group."""
    call("pause", **locals())


@app.command()
def resume(consumer_group: Group, topic: Topic, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Continue delivery after `pause`."""
    call("resume", **locals())


@app.command()
def seek(
    group: Group,
    topic: Topic,
    target: Annotated[
        str,
        typer.Argument(help="earliest, latest, a time with its zone (2026-12-01 10:00Z), or an offset (with --queue)."),
    ],
    queue: Queue = None,
    consumer: Consumer = None,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would skip and repeat.")] = False,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Move a group to another position. Its open deliveries can no longer be acknowledged.

    It says how many messages the group skips and gets again, and asks on a terminal before it moves
    anything.
    """
    if target.isdigit() and queue is None:
        raise typer.BadParameter("an offset is one of a queue: name it with --queue", param_hint="TARGET")
    with broker(dsn) as mq:
        effect = seeking.preview(mq, group, topic, target, queue, consumer)
        if not json:
            typer.echo(seeking.sentence(effect))
        if not dry_run:
            confirm(f"Move group {group} in topic {topic} to {target}?", yes=yes)
            mq.seek(group, topic, target, queue, consumer=consumer)
    facts = {"consumer_group": group, "topic": topic, "target": target, "queue_id": queue, "consumer": consumer}
    print_result("seek", as_json=json, moved=not dry_run, **facts, **effect)


@app.command()
def unpin(
    consumer_group: Group,
    topic: Topic,
    queue_id: Queue = None,
    consumer: Consumer = None,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Take pinned queues away from their consumers: one queue or all, of one consumer or of all.

    Do this only when the consumer is gone for good, or its database has moved. The next consumer
    must have its offsets.
    """
    call("unpin", **locals())


@app.command()
def realign(
    group: Group,
    topic: Topic,
    database: Database,
    without_journal: Annotated[
        WithoutJournal | None,
        typer.Option(
            "--without-journal",
            help="Where no journal says what was applied: repeat (apply again) or skip (leave out).",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what it would move.")] = False,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Move a consumer with its own database back behind a broker that has lost messages.

    Run it when the consumer has stopped with OffsetBeyondLog after the promotion of an asynchronous
    standby or a restore. From there on the consumer leaves out what its journal says it has
    applied. Without a journal nothing is moved unless you choose.
    """
    from mqpg import protocols  # needs SQLAlchemy, which no other command here does

    with broker(dsn) as mq:
        found = protocols.realign(mq, database, group, topic, without_journal=without_journal, dry_run=dry_run)
    if json or found:
        print_rows([asdict(one) for one in found], _REALIGNED_COLUMNS, as_json=json)
    if not json:
        typer.echo(_realign_sentence(group, topic, len(found), dry_run))


def _realign_sentence(group: str, topic: str, queues: int, dry_run: bool) -> str:
    if not queues:
        return f"group {group} on topic {topic} is not ahead of the broker: nothing to move"
    moves = "would move" if dry_run else "moved"
    return f"{moves} group {group} on {counted(queues, 'queue')} of topic {topic} back"


@app.command("purge-journal")
def purge_journal(
    group: Group,
    topic: Topic,
    database: Database,
    days: Annotated[float, typer.Option(min=0, max=36500, help="How old a row must be.")] = 1.0,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Delete rows of mqpg_applied and mqpg_inbox whose messages the broker has dropped.

    Keep rows for longer than a standby of the broker may lag behind. The journal of a consumer in the
    queue's own database is there.
    """
    from mqpg import protocols  # needs SQLAlchemy

    with broker(dsn) as mq:
        deleted = protocols.purge_journal(mq, database, group, topic, older_than=timedelta(days=days))
    said = f"deleted {counted(deleted, 'row')} of group {group} about topic {topic}"
    print_result("purge_journal", said, as_json=json, rows=deleted)
