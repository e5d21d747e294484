"""`mqpg find` and `mqpg trace`: one message, by key, by id or by handle."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

import mqpg
from mqpg.cli.connecting import broker, rows, show
from mqpg.cli.options import Dsn, Json, printable
from mqpg.status.finding import Row
from mqpg.status.half_messages import Rows, asked, bodies, parked_because, parks_again, undecided
from mqpg.values.handle import parse_handle
from mqpg.values.messages import TraceEvent

__all__ = ["find", "trace"]

_LONGEST = 2000  # characters of a payload that a terminal shows
_BROKER = "select b.broker_id from mqpg._broker() as b"


def find(
    topic: Annotated[str, typer.Argument(help="Topic.")],
    key: Annotated[str, typer.Argument(help="The key of the messages.")],
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Find messages by key, also undecided, delayed and not yet appended ones.

    Exit status 1 if there are none.
    """
    with broker(dsn) as mq:
        found = mq.find_by_key(topic, key)
    columns = ["message_id", "queue_id", "queue_offset", "state", "born_at", "payload"]
    _show(found, columns, f"no message of topic {topic} has this key", as_json=json)


def trace(
    about: Annotated[str, typer.Argument(metavar="ID", help="A message id, or the handle of a half message.")],
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """Show the key and the payload of a message, and list its events.

    Events are: prepared, decided, appended, delivered, retried, dead letter. The first one of the
    JSON array has the payload in its detail. Exit status 1 if there is no such message.
    """
    with broker(dsn) as mq:
        message_id = _message_id(mq, about)
        found = mq.trace(message_id)
        ask = partial(rows, mq)
        body = bodies(ask, [message_id], 2**31 - 1 if json else _LONGEST).get(message_id)
        lines = [] if json or not found else [*_content(message_id, body), *_parked(ask, message_id)]
    for line in lines:
        typer.echo(printable(line))
    if json and found and body is not None:
        found = [_with_body(found[0], body), *found[1:]]
    _show(found, ["at", "event", "detail"], f"no message {about}", as_json=json)


def _message_id(mq: mqpg.Client, about: str) -> int:
    """The message id that somebody gave, or that is in the handle."""
    if about.isdecimal() and len(about) <= 18:
        return int(about)
    named = parse_handle(about)
    if named is None:
        raise typer.BadParameter(f"{about!r} is no message id and no handle of a half message")
    broker_id, message_id = named
    if broker_id != rows(mq, _BROKER)[0]["broker_id"]:
        raise typer.BadParameter(f"the handle is of another broker, {broker_id}")
    return message_id


def _content(message_id: int, body: Row | None) -> Iterator[str]:
    if body is None:
        yield f"message {message_id}: the broker no longer has its payload, or you may not read it"
        return
    marks = "".join(f", {name} {body[name]}" for name in ("key", "tag") if body[name] is not None)
    yield f"message {message_id} of topic {body['topic']}{marks}: {body['state'].replace('_', ' ')}"
    if body["payload"] is not None:
        more = body["length"] - len(body["payload"])
        yield f"payload: {body['payload']}" + (f" … and {more:,} characters more" if more else "")
    if body["headers"] is not None:
        yield f"headers: {body['headers']}"


def _parked(ask: Rows, message_id: int) -> Iterator[str]:
    """Why it is parked, and what decides it, where it is a parked half message."""
    half = undecided(ask, message_id)
    if half is None or half["parked_at"] is None:
        return
    producer = asked(ask, [half["producer_group"]])[half["producer_group"]].producer
    reason = f" ({half['reason']})" if half["reason"] else ""
    yield f"{parked_because(half, producer)}{reason}"
    yield "decide it: mqpg half settle HANDLE commit|rollback --reason WHY"
    if (again := parks_again(producer)) is not None:
        yield again


def _with_body(event: TraceEvent, body: Row) -> TraceEvent:
    """The event with the payload and the headers as they are stored."""
    texts = [f'"{name}": {body[name]}' for name in ("payload", "headers") if body[name] is not None]
    detail = json_module.dumps(event.detail or {})
    joined = ", ".join([detail[1:-1], *texts] if detail != "{}" else texts)
    return replace(event, raw_detail=f"{{{joined}}}")


def _show(found: Sequence[Any], columns: list[str], nothing: str, *, as_json: bool) -> None:
    """Print a listing, or say on stderr that there is nothing. JSON is an empty array then."""
    if found or as_json:
        show(found, columns, as_json=as_json)
    if not found:
        typer.echo(f"mqpg: {nothing}", err=True)
        raise typer.Exit(1)
