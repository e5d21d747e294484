"""`mqpg send`, `mqpg peek` and `mqpg tail`: messages by hand. Reading them changes nothing."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

import mqpg
from mqpg.cli.connecting import broker, rows, show
from mqpg.cli.options import Dsn, Json, Topic, printable, say
from mqpg.values import errors
from mqpg.values.json_output import dumps

__all__ = ["peek", "send", "tail"]

_COLUMNS = ["message_id", "queue_id", "queue_offset", "key", "tag", "born_at", "payload"]
_DEPTH = """
    select q.queue_id, q.oldest_offset, q.next_offset from mqpg.queue_depth as q
    where q.topic = %(topic)s and (%(queue)s::int is null or q.queue_id = %(queue)s)
    order by q.queue_id
"""
_PAUSE = 0.5  # seconds between two looks of `tail --follow`

Queue = Annotated[int | None, typer.Option("--queue", help="Only this queue.")]
Count = Annotated[int, typer.Option("--max", "-n", min=1, max=10000, help="Messages of each queue at most.")]


def send(
    topic: Topic,
    payload: Annotated[str, typer.Argument(help="JSON. - reads it from standard input.")] = "-",
    key: Annotated[str | None, typer.Option("--key", help="Messages with one key stay in order.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="A word that subscriptions choose by.")] = None,
    headers: Annotated[str | None, typer.Option("--headers", help="JSON that travels beside the payload.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", help='Visible after this time, such as "5 min".')] = None,
    dedup_id: Annotated[str | None, typer.Option("--dedup-id", help="An id that was seen stores nothing.")] = None,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Send one message, and print its id."""
    text = sys.stdin.read() if payload == "-" else payload
    with broker(dsn) as mq:
        sent = mq.send(
            topic,
            mqpg.Json(text),
            key=key,
            tag=tag,
            headers=None if headers is None else _parsed(headers),
            delay=delay,
            dedup_id=dedup_id,
        )
    typer.echo(json_module.dumps({"message_id": sent}) if json else sent)


def peek(
    topic: Topic,
    queue: Queue = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="Begin at this offset of --queue.")] = None,
    count: Count = 10,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Print the oldest messages of a topic, or those from an offset on. Consumers do not notice.

    Exit status 1 if there are none.
    """
    if offset is not None and queue is None:
        raise errors.ConfigurationError("--offset needs --queue, because each queue has offsets of its own")
    with broker(dsn) as mq:
        found = [
            message
            for row in _depth(mq, topic, queue)
            for message in mq.fetch(topic, row["queue_id"], row["oldest_offset"] if offset is None else offset, count)
        ]
    show(found, _COLUMNS, as_json=json)
    if not found:
        raise typer.Exit(1)


def tail(
    topic: Topic,
    queue: Queue = None,
    count: Count = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print what comes, until Ctrl-C.")] = False,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Print the newest messages of a topic, one on each line. Consumers do not notice."""
    with broker(dsn) as mq:
        positions = {
            row["queue_id"]: max(row["oldest_offset"], row["next_offset"] - count) for row in _depth(mq, topic, queue)
        }
        while True:
            try:
                for message in _from(mq, topic, positions):
                    _print(message, as_json=json)
            except errors.ConnectionFailed as error:
                if not follow:
                    raise
                say(f"mqpg: {' '.join(str(error).split())}; again at once", err=True)
            if not follow:
                return
            sys.stdout.flush()
            time.sleep(_PAUSE)


def _depth(mq: mqpg.Client, topic: str, queue: int | None) -> list[dict[str, Any]]:
    count = mq.queries.queue_count(topic)  # raises where there is no such topic
    if queue is not None and not 0 <= queue < count:
        raise errors.InvalidArgument(f"--queue must be between 0 and {count - 1}, not {queue}")
    return rows(mq, _DEPTH, {"topic": topic, "queue": queue})


def _from(mq: mqpg.Client, topic: str, positions: dict[int, int]) -> Iterator[mqpg.Message]:
    """What lies at the positions and behind them. The positions move along."""
    for queue_id in positions:
        while found := mq.fetch(topic, queue_id, positions[queue_id], 1000):
            yield from found
            positions[queue_id] = found[-1].queue_offset + 1


def _print(message: mqpg.Message, *, as_json: bool) -> None:
    if as_json:
        line = {column: getattr(message, column) for column in _COLUMNS[:-1]}
        typer.echo(dumps(line | {"payload": mqpg.Json(message.raw)}))
        return
    place = f"{message.queue_id}:{message.queue_offset}"
    marks = " ".join(f"{name}={value}" for name, value in (("key", message.key), ("tag", message.tag)) if value)
    fields = (place, message.message_id, f"{message.born_at:%Y-%m-%d %H:%M:%S}", marks, message.raw)
    typer.echo("\t".join(printable(str(field)) for field in fields))


def _parsed(text: str) -> Any:
    try:
        return json_module.loads(text)
    except ValueError as error:
        raise errors.InvalidArgument(f"--headers is not JSON: {error}") from None
