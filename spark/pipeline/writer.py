"""The sink: rows as messages, exactly once.

Tasks prepare half messages, which nobody sees. The driver commits all of a batch, and notes its number,
in one transaction. A batch that Spark repeats finds its number there, and its half messages are rolled
back. What dead tasks have left expires with the producer group's expire_after.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as ds
from pyspark.sql.types import StringType, StructType

from mqpg.values.errors import ConfigurationError, Error

from .broker import Broker
from .options import WriteOptions

__all__ = ["BatchWriter", "StreamWriter"]

_log = logging.getLogger(__name__)

_COLUMNS = ("payload", "key", "tag", "headers", "topic")
_CALL = 1000  # messages of one call
_PREPARE = "select h from mqpg.prepare_batch(%s, %s::text[], %s, %s::text[], %s::text[], %s::text[]::jsonb[]) as h"
_COMMIT = "select mqpg.commit_once(%s, %s::text[], %s, %s) as is_new"
_ROLL_BACK = "select count(*) from mqpg.rollback_batch(%s::text[])"


class Prepared(ds.WriterCommitMessage):
    """What a task has prepared."""

    def __init__(self, handles: list[str], query: str | None) -> None:
        self.handles = handles
        self.query = query


class Writing:
    """What a batch and a stream share."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self.options = options
        names = schema.fieldNames()
        if overwrite:
            raise ConfigurationError("mode overwrite is not possible: messages are appended")
        if unknown := [name for name in names if name not in _COLUMNS]:
            raise ConfigurationError(f"column {unknown[0]!r} is unknown; a message has {', '.join(_COLUMNS)}")
        if wrong := [field.name for field in schema if not isinstance(field.dataType, StringType)]:
            raise ConfigurationError(f"column {wrong[0]!r} must be text; payload and headers are JSON, see to_json()")
        if "payload" not in names or ("topic" not in names and not options.topic):
            raise ConfigurationError("there must be a column payload, and a column or an option topic")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        """Prepare the rows of a partition, in a task."""
        handles: list[str] = []
        with Broker(self.options.dsn) as broker:
            for batch in iterator:
                for first in range(0, batch.num_rows, _CALL):
                    handles += self._prepare(broker, batch.slice(first, _CALL).to_pydict())
        context = TaskContext.get()
        return Prepared(handles, context.getLocalProperty("sql.streaming.queryId") if context else None)

    def _prepare(self, broker: Broker, columns: Mapping[str, list[Any]]) -> list[str]:
        topics = [topic or self.options.topic for topic in columns.get("topic", [None] * len(columns["payload"]))]
        handles = []
        for topic in dict.fromkeys(topics):
            rows = [row for row, named in enumerate(topics) if named == topic]
            payloads, keys, tags, headers = (
                [columns[name][row] for row in rows] if name in columns else None
                for name in ("payload", "key", "tag", "headers")
            )
            found = broker.call(_PREPARE, topic, payloads, self.options.producer_group, keys, tags, headers)
            handles += [row["h"] for row in found]
        return handles

    def _commit(self, messages: list[Any], batch: int | None) -> None:
        handles = _handles(messages)
        writer = self.options.writer or next((one.query for one in messages if one and batch is not None), None)
        if batch is not None and handles and writer is None:
            raise Error("Spark does not say which query this is, so a batch that is repeated could not be recognized")
        if handles:
            with Broker(self.options.dsn) as broker:
                committed = broker.call(_COMMIT, self.options.producer_group, handles, writer, batch)
            if not committed[0]["is_new"]:
                _log.warning(
                    "batch %s of writer %r was committed before: its %s messages are left out",
                    batch, writer, len(handles),
                )  # fmt: skip

    def _roll_back(self, messages: list[Any]) -> None:
        if handles := _handles(messages):
            with Broker(self.options.dsn) as broker:
                broker.call(_ROLL_BACK, handles)


class BatchWriter(Writing, ds.DataSourceArrowWriter):
    """A batch of rows."""

    def commit(self, messages: list[ds.WriterCommitMessage | None]) -> None:
        """Commit what all tasks have prepared, in the driver."""
        self._commit(messages, self.options.batch)

    def abort(self, messages: list[ds.WriterCommitMessage | None]) -> None:
        """Roll back what tasks have prepared, in the driver."""
        self._roll_back(messages)


class StreamWriter(Writing, ds.DataSourceStreamArrowWriter):
    """A stream of rows. The writer is the query, whose id is in its checkpoint."""

    def commit(self, messages: list[ds.WriterCommitMessage | None], batchId: int) -> None:
        """Commit what all tasks have prepared, in the driver."""
        self._commit(messages, batchId)

    def abort(self, messages: list[ds.WriterCommitMessage | None], batchId: int) -> None:
        """Roll back what tasks have prepared, in the driver."""
        self._roll_back(messages)


def _handles(messages: list[Any]) -> list[str]:
    return [handle for message in messages if message for handle in message.handles]
