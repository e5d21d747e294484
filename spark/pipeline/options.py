"""The options of the data source, as texts that Spark hands over."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg.conninfo import make_conninfo

from mqpg.connection.dsn import NOWHERE, to_libpq
from mqpg.values.errors import ConfigurationError

__all__ = ["COLUMNS", "ReadOptions", "Start", "WriteOptions", "broker_dsn"]

# The columns of a message, with their types in Spark.
COLUMNS = {
    "topic": "string",
    "queue": "int",
    "offset": "bigint",
    "message_id": "bigint",
    "key": "string",
    "tag": "string",
    "headers": "string",
    "payload": "string",
    "born_at": "timestamp",
    "appended_at": "timestamp",
}
_PLACE = ("dsn", "service", "passfile")
_READ = (
    *_PLACE, "topic", "topics", "columns", "schema", "startingOffsets", "endingOffsets", "minPartitions",
    "maxOffsetsPerTrigger", "failOnDataLoss", "group",
)  # fmt: skip
_WRITE = (*_PLACE, "topic", "producerGroup", "writer", "batch")
# What Spark adds to the options of a sink.
_SPARKS = ("path", "checkpointLocation", "queryName")
_NAMED_OFFSETS = {-2: "earliest", -1: "latest"}

# "earliest", "latest", a time, or for each topic the offset of each queue.
Start = str | datetime | Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class ReadOptions:
    """The options of a source, checked.

    Attributes:
        dsn: The broker's database, for libpq.
        topics: The topics that are read.
        columns: The columns, in the order in which they come.
        payload: A schema of Spark by which payloads are parsed. None: they stay text.
        start: Where reading begins.
        end: Where a batch ends.
        partitions: The least number of partitions. None: it follows the number of messages.
        most: How many messages a micro-batch has at most. None: all that are there.
        fail_on_loss: Whether messages that retention has dropped unread are an error.
        group: The consumer group that follows the query. None: reading leaves no trace.
    """

    dsn: str
    topics: tuple[str, ...]
    columns: tuple[str, ...]
    payload: str | None
    start: Start
    end: Start
    partitions: int | None
    most: int | None
    fail_on_loss: bool
    group: str | None

    @classmethod
    def of(cls, given: Mapping[str, str], *, stream: bool) -> ReadOptions:
        """Check the options of a batch or a stream. Raises ConfigurationError, which names the option."""
        _require_known(given, _READ)
        for name in ("endingOffsets",) if stream else ("group", "maxOffsetsPerTrigger"):
            if name in given:
                raise ConfigurationError(f"option {name} is for a {'batch' if stream else 'stream'} only")
        topics = _names(given, "topic") + _names(given, "topics")
        if not topics or ("topic" in given and "topics" in given):
            raise ConfigurationError("option topic must name a topic, or option topics several, such as orders,bills")
        return cls(
            dsn=broker_dsn(given),
            topics=tuple(dict.fromkeys(topics)),
            columns=_columns(given),
            payload=given.get("schema"),
            start=_offsets(given, "startingOffsets", "earliest", topics),
            end=_offsets(given, "endingOffsets", "latest", topics),
            partitions=_number(given, "minPartitions"),
            most=_number(given, "maxOffsetsPerTrigger"),
            fail_on_loss=_flag(given, "failOnDataLoss"),
            group=given.get("group"),
        )

    def schema(self) -> str:
        """The columns as a schema of Spark."""
        types = COLUMNS | ({"payload": f"struct<{self.payload}>"} if self.payload else {})
        return ", ".join(f"`{name}` {types[name]}" for name in self.columns)


@dataclass(frozen=True)
class WriteOptions:
    """The options of a sink, checked.

    Attributes:
        dsn: The broker's database, for libpq.
        topic: Where messages go whose row names no topic. None: each row names one.
        producer_group: The group that half messages are prepared for.
        writer: Names who numbers batches. None: a stream's query does, and a batch is never repeated.
        batch: The number of a batch that is written with `writer`.
    """

    dsn: str
    topic: str | None
    producer_group: str
    writer: str | None
    batch: int | None

    @classmethod
    def of(cls, given: Mapping[str, str], *, stream: bool) -> WriteOptions:
        """Check the options of a sink. Raises ConfigurationError, which names the option."""
        _require_known(given, (*_WRITE, *_SPARKS))
        group = given.get("producerGroup")
        if not group:
            raise ConfigurationError(
                "option producerGroup must name a producer group, which mqpg.create_producer_group() creates"
            )
        if stream and ("writer" in given or "batch" in given):
            raise ConfigurationError("options writer and batch are for a batch only: a stream numbers its batches")
        if ("writer" in given) != ("batch" in given):
            raise ConfigurationError("options writer and batch must be given together")
        return cls(broker_dsn(given), given.get("topic"), group, given.get("writer"), _number(given, "batch", least=0))


def broker_dsn(given: Mapping[str, str]) -> str:
    """The broker's database, by the options dsn, service and passfile, or by MQPG_DATABASE_URL."""
    dsn = given.get("dsn", "" if "service" in given else os.environ.get("MQPG_DATABASE_URL", ""))
    if not dsn and "service" not in given:
        raise ConfigurationError(f"option dsn must name the broker's database. {NOWHERE}")
    try:
        parts = {name: given[name] for name in ("service", "passfile") if name in given}
        return make_conninfo(to_libpq(dsn) if dsn else "", **parts)
    except ConfigurationError as error:
        raise ConfigurationError(f"option dsn: {error}") from error


def _require_known(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    allowed = {name.lower() for name in known}
    for name in given:
        if name.lower() not in allowed:
            raise ConfigurationError(f"option {name} is unknown; there are {', '.join(known)}")


def _names(given: Mapping[str, str], option: str) -> list[str]:
    text = given.get(option, "")
    return [name.strip() for name in (text.split(",") if option == "topics" else [text]) if name.strip()]


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.get("columns", ",".join(COLUMNS)).split(","))
    for name in names:
        if name not in COLUMNS or names.count(name) > 1:
            raise ConfigurationError(f"option columns must list some of {', '.join(COLUMNS)}, not {name!r}")
    return names


def _number(given: Mapping[str, str], option: str, least: int = 1) -> int | None:
    text = given.get(option)
    if text is None:
        return None
    if not text.isdecimal() or not least <= int(text) < 2**63:
        raise ConfigurationError(f"option {option} must be a whole number from {least} on, not {text!r}")
    return int(text)


def _flag(given: Mapping[str, str], option: str) -> bool:
    text = given.get(option, "true").lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"option {option} must be true or false, not {text!r}")
    return text == "true"


def _offsets(given: Mapping[str, str], option: str, default: str, topics: list[str]) -> Start:
    text = given.get(option, default).strip()
    if text in ("earliest", "latest"):
        return text
    if text.startswith("{"):
        return _offsets_of_queues(option, text, topics)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ConfigurationError(
            f"option {option} must be earliest, latest, a time with its zone such as 2026-01-31T12:00:00Z, or "
            f'JSON such as {{"orders": {{"0": 100, "1": -1}}}}, not {text!r}'
        )
    return at


def _offsets_of_queues(option: str, text: str, topics: list[str]) -> Mapping[str, Mapping[int, int]]:
    try:
        found = {
            topic: {int(queue): offset for queue, offset in queues.items()}
            for topic, queues in json.loads(text).items()
        }
    except (ValueError, AttributeError):
        found = None
    if found is None or any(
        type(offset) is not int or offset < -2 or queue < 0
        for queues in found.values()
        for queue, offset in queues.items()
    ):
        raise ConfigurationError(
            f"option {option} must have an offset, -2 (earliest) or -1 (latest) for each queue, not {text!r}"
        )
    if unread := [topic for topic in found if topic not in topics]:
        raise ConfigurationError(f"option {option} names topic {unread[0]!r}, which is not read")
    return found
