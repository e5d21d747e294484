"""The values that calls take and return: messages, outcomes, verdicts, JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from mqpg.values.choices import FoundState, HalfStateName, UnsettledState
from mqpg.values.errors import InvalidArgument, Undecodable

__all__ = [
    "BrokerInfo",
    "DeadLetter",
    "EARLIER_IDS",
    "FoundMessage",
    "HalfCheck",
    "HalfState",
    "AbandonedQueues",
    "Interval",
    "Json",
    "LostHalf",
    "Message",
    "Outcome",
    "RETRY_LANE",
    "Realigned",
    "Result",
    "Right",
    "TraceEvent",
    "Unsettled",
    "Verdict",
]

Interval = timedelta | float | str
"""A time span: a timedelta, a number of seconds, or text that PostgreSQL reads, such as "30 s"."""

RETRY_LANE = -1
"""The queue id of messages that come from the subscription's retry lane."""

EARLIER_IDS = "mqpg-earlier-ids"
"""The header with the ids that a message had before its broker lost it."""


class Outcome(StrEnum):
    """What a decision over a half message came to. The first decision stands.

    Attributes:
        COMMITTED: This call committed the half message.
        ALREADY_COMMITTED: It was committed before.
        ROLLED_BACK: This call rolled it back.
        ALREADY_ROLLED_BACK: It was rolled back before.
        UNKNOWN: The handle names no half message of this broker.
    """

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already_committed"
    ROLLED_BACK = "rolled_back"
    ALREADY_ROLLED_BACK = "already_rolled_back"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What a check-back found out about a local transaction (protocol T3).

    Attributes:
        COMMIT: The local transaction has committed.
        ROLLBACK: It has not committed, and no longer can.
        WAIT: It is still open, or cannot be looked up now. This is no answer.
    """

    COMMIT = "commit"
    ROLLBACK = "rollback"
    WAIT = "wait"


class Result(StrEnum):
    """What a business action came to (postMessage).

    Attributes:
        SUCCESS: It was done, so its message is delivered.
        FAILURE: It was not done and never will be, so its message is dropped.
        WAIT: It is not over, or its result is not known yet. The reverse flow asks again.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Json:
    """JSON text that is sent byte for byte, instead of an object that is encoded.

    Args:
        raw: The text, or its bytes in UTF-8.

    Raises:
        InvalidArgument: It is neither text nor bytes, or the bytes are not UTF-8.
    """

    raw: str

    def __init__(self, raw: str | bytes) -> None:
        if not isinstance(raw, (str, bytes)):
            raise InvalidArgument(f"Json takes text or bytes, not {type(raw).__name__}")
        try:
            text = raw.decode() if isinstance(raw, bytes) else raw
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"Json takes text in UTF-8: {error}") from None
        object.__setattr__(self, "raw", text)


class _Payload:
    """The payload, which is decoded when it is first read."""

    raw: str

    @cached_property
    def payload(self) -> Any:
        """The decoded payload. Raises Undecodable."""
        return decode(self.raw, "payload")


class _Body(_Payload):
    """Payload and headers, which are decoded when they are first read."""

    raw_headers: str | None

    @cached_property
    def headers(self) -> Any:
        """The decoded headers. None: it has no headers. Raises Undecodable."""
        return decode(self.raw_headers, "headers")


@dataclass(frozen=True)
class Message(_Body):
    """One delivered message.

    Its JSON is decoded when `payload` or `headers` is first read. PostgreSQL stores JSON that
    Python does not decode, such as a number of 5,000 digits. Reading it raises Undecodable.

    Attributes:
        message_id: The id that `send` returned.
        topic: The topic's name.
        queue_id: The queue, from 0. -1 is the subscription's retry lane.
        queue_offset: The offset in that queue, or in the retry lane.
        key: The message's key. None: it has no key.
        tag: The message's tag. None: it has no tag.
        raw_headers: The headers as JSON text. None: it has no headers.
        raw: The payload as JSON text, byte for byte as it was sent.
        born_at: When the message was sent.
        attempt: The number of this delivery, 1 at first.
        receipt: The receipt of the delivery, which is the same for all of its messages. None: the
            message was read by `fetch`.
    """

    message_id: int
    topic: str
    queue_id: int
    queue_offset: int
    key: str | None
    tag: str | None
    raw_headers: str | None
    raw: str
    born_at: datetime
    attempt: int
    receipt: str | None

    @classmethod
    def _from_row(cls, row: tuple[Any, ...]) -> Message:
        """Make a message from a row of mqpg.delivery, with headers and payload as text."""
        message = object.__new__(cls)
        # The constructor of a frozen dataclass sets each attribute by a call of its own.
        message.__dict__.update(zip(_MESSAGE, row, strict=True))
        return message

    def _decode_again(self) -> None:
        """Decode payload and headers when they are next read: a handler may have changed what it read."""
        self.__dict__.pop("payload", None)
        self.__dict__.pop("headers", None)


_MESSAGE = tuple(one.name for one in fields(Message))


@dataclass(frozen=True)
class AbandonedQueues:
    """Pinned queues with messages that wait, owned by a consumer that seems to be gone.

    Attributes:
        consumer: The name of the consumer that owns them.
        queues: The queues where messages wait. -1 is the retry lane.
        lag: How many messages wait there.
        since: When that consumer last did something.
    """

    consumer: str
    queues: tuple[int, ...]
    lag: int
    since: datetime


@dataclass(frozen=True)
class Right:
    """What one role may do, as it was granted.

    Attributes:
        role: The name of the role. Its members have the right too, unless they are NOINHERIT.
        privilege: "send", "produce", "receive", "operator", "auditor" or "worker".
        topic: The topic of a right to send or receive, "*" for all. None: the right has none.
        consumer_group: The group of a right to receive, "*" for all. None: the right has none.
        producer_group: The group of a right to produce, "*" for all. None: the right has none.
        granted_by: The role that granted it.
        granted_at: When it was granted.
    """

    role: str
    privilege: str
    topic: str | None
    consumer_group: str | None
    producer_group: str | None
    granted_by: str
    granted_at: datetime


@dataclass(frozen=True)
class HalfCheck(_Body):
    """An overdue half message that an application has to answer for (protocol T3).

    Attributes:
        handle: The half message's handle.
        topic: The topic's name.
        key: The message's key. None: it has no key.
        raw_headers: The headers as JSON text. None: it has no headers.
        raw: The prepared payload as JSON text.
        attempt: The number of this check-back, 1 at first.
    """

    handle: str
    topic: str
    key: str | None
    raw_headers: str | None
    raw: str
    attempt: int

    @classmethod
    def _from_row(cls, row: tuple[Any, ...]) -> HalfCheck:
        """Make a check from a row of due_checks, with headers and payload as text."""
        return cls(*row)


@dataclass(frozen=True)
class HalfState:
    """What became of a half message.

    Attributes:
        handle: The half message's handle.
        state: "undecided", "committed", "rolled_back", "forgotten" (it was decided so long ago that
            the broker has dropped the decision) or "unknown" (the handle names no half message of
            this broker).
        parked: Whether it is undecided and waits for an administrator.
        message_id: The message's id. None: the state is "unknown".
        topic: The topic's name. None: the message is gone.
        key: The message's key. None: it has no key, or the message is gone.
    """

    handle: str
    state: HalfStateName
    parked: bool
    message_id: int | None
    topic: str | None
    key: str | None


@dataclass(frozen=True)
class Unsettled:
    """A local transaction that committed, while no commit decided its message (protocol T6).

    Attributes:
        handle: The half message's handle.
        message_id: The message's id. None: the broker has lost it.
        topic: The topic's name. None: it is not known.
        key: The message's key. None: it has no key, or the message is gone.
        state: "undecided", "rolled_back" (which contradicts the ledger) or "absent" (the broker has
            lost it).
        outcome: What the commit came to. None: no commit was tried.
    """

    handle: str
    message_id: int | None
    topic: str | None
    key: str | None
    state: UnsettledState
    outcome: Outcome | None


@dataclass(frozen=True)
class LostHalf:
    """A half message that its broker has lost, although its local transaction committed.

    Attributes:
        handle: The handle that the broker no longer knows.
        message_id: The id that the message had.
        topic: The topic's name. None: it is not known.
        new_handle: The handle under which the message was prepared again. None: it was not.
        outcome: What the commit of the new half message came to. None: no commit was tried.
    """

    handle: str
    message_id: int
    topic: str | None
    new_handle: str | None
    outcome: Outcome | None


@dataclass(frozen=True)
class Realigned:
    """A queue whose consumer was ahead of a broker that had lost messages (protocol C2).

    Attributes:
        queue_id: The queue.
        from_offset: The consumer's next offset before.
        to_offset: Its next offset now.
        next_offset: The queue's next offset.
        journaled: Whether the consumer's journal says what it had applied beyond the surviving end.
    """

    queue_id: int
    from_offset: int
    to_offset: int
    next_offset: int
    journaled: bool


@dataclass(frozen=True)
class DeadLetter(_Body):
    """A message whose attempts are used up, or that a handler rejected.

    Its JSON is decoded when `payload`, `headers` or `history` is first read, so that a list also
    shows letters that Python cannot decode.

    Attributes:
        message_id: The message's id.
        queue_id: The queue of the topic that the message was in.
        key: The message's key. None: it has no key.
        raw: The payload as JSON text.
        attempts: How many deliveries it had.
        reason: Why the last attempt failed. None: no reason was given.
        died_at: When it became a dead letter.
        raw_headers: The headers as JSON text. None: it has no headers.
        tag: The message's tag. None: it has no tag.
        raw_history: `history` as JSON text. None: nothing is known.
        consumer: In a broadcast group the member whose dead letter it is. None: the group is no
            broadcast group.
    """

    message_id: int
    queue_id: int
    key: str | None
    raw: str
    attempts: int
    reason: str | None
    died_at: datetime
    raw_headers: str | None = None
    tag: str | None = None
    raw_history: str | None = None
    consumer: str | None = None

    @cached_property
    def history(self) -> Any:
        """What is known of each attempt.

        It is a list of objects with attempt, delivered_at, consumer, failed_at and reason. None:
        nothing is known. Raises Undecodable.
        """
        return decode(self.raw_history, "history")


@dataclass(frozen=True)
class FoundMessage(_Payload):
    """A message that `find_by_key` found.

    Attributes:
        message_id: The message's id.
        queue_id: The queue, from 0.
        queue_offset: The offset in that queue. None: the message is in no queue yet.
        state: "prepared", "rolled_back", "committed" (decided, not appended yet), "delayed",
            "recalled", "pending" (sent, not appended yet) or "appended".
        born_at: When it was sent or prepared.
        raw: The payload that is delivered, as JSON text.
    """

    message_id: int
    queue_id: int
    queue_offset: int | None
    state: FoundState
    born_at: datetime
    raw: str


@dataclass(frozen=True)
class TraceEvent:
    """One thing that happened to a message.

    Attributes:
        at: When it happened.
        event: Its name, such as "born", "decided", "appended", "delivered" or "done".
        raw_detail: What is known about it, as JSON text. None: nothing more is known.
    """

    at: datetime
    event: str
    raw_detail: str | None

    @cached_property
    def detail(self) -> Any:
        """What is known about it, decoded. None: nothing more is known. Raises Undecodable."""
        return decode(self.raw_detail, "detail")


@dataclass(frozen=True)
class BrokerInfo:
    """The identity of a broker.

    Attributes:
        broker_id: The broker's id, with which every handle of its half messages begins.
        incarnation: A number that is raised whenever the broker was restored or promoted.
        schema_version: The version of the installed schema. None: it was not asked for.
    """

    broker_id: str
    incarnation: int
    schema_version: str | None = field(default=None, compare=False)


def decode(text: str | None, name: str) -> Any:
    """The decoded JSON of the attribute called `name`. Raises Undecodable."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"{name} is JSON that Python does not decode: {error}") from None
