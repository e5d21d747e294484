"""Values that calls take and return: messages, outcomes, verdicts, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from mqpg.errors import InvalidArgument

__all__ = [
    "BrokerInfo",
    "DeadLetter",
    "FoundMessage",
    "HalfCheck",
    "HalfState",
    "Interval",
    "Json",
    "Message",
    "Outcome",
    "RETRY_LANE",
    "Result",
    "TraceEvent",
    "Unsettled",
    "Verdict",
]

# A time span: a timedelta, a number of seconds, or PostgreSQL's own notation ("30 s", "7 days").
Interval = timedelta | float | str

# The queue id of messages that come from the subscription's retry lane.
RETRY_LANE = -1


class Outcome(StrEnum):
    """What a decision about a half message came to; the first decision stands."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already_committed"
    ROLLED_BACK = "rolled_back"
    ALREADY_ROLLED_BACK = "already_rolled_back"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What a check-back found out about a local transaction; `WAIT` is no answer (protocol T3)."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    WAIT = "wait"


class Result(StrEnum):
    """What a business action came to (postMessage); `WAIT`: it is not over, or nobody can tell yet."""

    SUCCESS = "success"
    FAILURE = "failure"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Json:
    """JSON text to be sent byte for byte, instead of an object to be encoded."""

    raw: str

    def __init__(self, raw: str | bytes) -> None:
        object.__setattr__(self, "raw", raw.decode() if isinstance(raw, bytes) else raw)


@dataclass(frozen=True)
class Message:
    """One delivered message. `receipt` is the same for all messages of one delivery, None from fetch.

    A retry has `queue_id` -1 and the offset of the subscription's retry lane.
    """

    message_id: int
    topic: str
    queue_id: int
    queue_offset: int
    key: str | None
    tag: str | None
    headers: Any
    raw: str
    born_at: datetime
    attempt: int
    receipt: str | None

    @cached_property
    def payload(self) -> Any:
        """The decoded JSON body; `raw` is its text, byte for byte as sent."""
        return json.loads(self.raw)

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> Message:
        message_id, topic, queue_id, queue_offset, key, tag, headers, raw, born_at, attempt, receipt = row
        headers = decode(headers)
        return cls(message_id, topic, queue_id, queue_offset, key, tag, headers, raw, born_at, attempt, receipt)


@dataclass(frozen=True)
class HalfCheck:
    """An overdue half message that an application has to answer for (protocol T3)."""

    handle: str
    topic: str
    key: str | None
    headers: Any
    raw: str
    attempt: int

    @cached_property
    def payload(self) -> Any:
        """The decoded JSON body as prepared."""
        return json.loads(self.raw)

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> HalfCheck:
        handle, topic, key, headers, raw, attempt = row
        return cls(handle, topic, key, decode(headers), raw, attempt)


@dataclass(frozen=True)
class HalfState:
    """What became of a half message: undecided (maybe parked), committed, rolled_back, forgotten or unknown."""

    handle: str
    state: str
    parked: bool
    message_id: int | None
    topic: str | None
    key: str | None


@dataclass(frozen=True)
class Unsettled:
    """A local transaction that committed and whose message no commit decided (protocol T6).

    `state`: undecided, rolled_back (the ledger is contradicted), absent (the broker has lost it); `outcome` what
    the commit came to, None where none was tried.
    """

    handle: str
    message_id: int | None
    topic: str | None
    key: str | None
    state: str
    outcome: Outcome | None


@dataclass(frozen=True)
class DeadLetter:
    """A message whose attempts are used up, or that was rejected.

    `history` has what is known of each attempt: attempt, delivered_at, consumer, failed_at, reason. `consumer` is
    the member whose letter it is, of a broadcast group.
    """

    message_id: int
    queue_id: int
    key: str | None
    payload: Any
    attempts: int
    reason: str | None
    died_at: datetime
    headers: Any = None
    tag: str | None = None
    history: Any = None
    consumer: str | None = None


@dataclass(frozen=True)
class FoundMessage:
    """One answer of find_by_key; queue_offset is None while the message is in no queue."""

    message_id: int
    queue_id: int
    queue_offset: int | None
    state: str
    born_at: datetime
    payload: Any


@dataclass(frozen=True)
class TraceEvent:
    """One thing that happened to a message."""

    at: datetime
    event: str
    detail: Any


@dataclass(frozen=True)
class BrokerInfo:
    """Who the broker is: a handle names it, `incarnation` counts its lives."""

    broker_id: str
    incarnation: int
    schema_version: str | None = field(default=None, compare=False)


def encode(payload: Any) -> str | None:
    """Payload to JSON text; None stays None (SQL null, which the server refuses)."""
    if payload is None:
        return None
    if isinstance(payload, Json):
        return payload.raw
    try:
        return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"payload is not JSON: {error}") from None


def encode_all(payloads: Iterable[Any] | None) -> list[str | None] | None:
    return None if payloads is None else [encode(payload) for payload in payloads]


def decode(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def interval(value: Interval | None) -> timedelta | str | None:
    """Numbers are seconds; everything else goes to the server as it is."""
    if value is None or isinstance(value, (timedelta, str)):
        return value
    try:
        return timedelta(seconds=value)
    except (OverflowError, TypeError, ValueError):
        raise InvalidArgument(f"not a time span: {value!r} (want a timedelta, seconds, or text as '30 s')") from None
