"""Columns of every frame that the audit reads or returns. Ids are bigint, xids too, times are UTC timestamps."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = [
    "ANOMALY",
    "APPLIED",
    "BODIES",
    "CURSORS",
    "DEAD_LETTERS",
    "DECISIONS",
    "DEFERRED",
    "DELAYED",
    "LEDGER",
    "LEDGER_GROUPS",
    "OFFSETS",
    "PROMISES",
    "QUEUE_ROWS",
    "SUBSCRIPTIONS",
    "TICKS",
    "TOPICS",
    "conform",
]

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "array<int>": ArrayType(IntegerType()),
    "array<bigint>": ArrayType(LongType()),
}


def _parse(text: str) -> StructType:
    # StructType.fromDDL would need a running JVM.
    columns = [column.split() for column in text.split(",")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns])


ANOMALY = _parse(
    "kind string, consumer_group string, topic string, queue_id int, queue_offset bigint, message_id bigint, "
    "evidence string"
)

# commit_log and survivor: one row a record batch. settled: its transaction is visible to the newest tick;
# forgotten: visible to the oldest tick that is left, so that its place in the queues may be dropped by now;
# decision_gone: a half whose decision, made long ago, is dropped.
BODIES = _parse(
    "first_id bigint, n int, xid bigint, born_at timestamp, topic_id int, producer_group_id int, kind string, "
    "nonce string, check_at timestamp, settled boolean, forgotten boolean, decision_gone boolean"
)
# relayed_as: the message that the commit of a relay topic's half travels as.
DECISIONS = _parse(
    "message_id bigint, stage int, op string, xid bigint, at timestamp, visible_at timestamp, decided_by string, "
    "relayed_as bigint, settled boolean, forgotten boolean"
)
# due: its time is not after the due_until of the newest tick.
DELAYED = _parse(
    "first_id bigint, n int, visible_at timestamp, xid bigint, topic_id int, subscription_id int, attempt int, "
    "due boolean, settled boolean, forgotten boolean"
)
QUEUE_ROWS = _parse(
    "base_offset bigint, tick_id bigint, topic_id int, subscription_id int, n int, queue_id int, "
    "first_ids array<bigint>, starts array<int>, attempts array<int>"
)
TICKS = _parse("tick_id bigint, xmax bigint, xip array<bigint>, due_until timestamp, at timestamp")
TOPICS = _parse("topic_id int, topic string")
SUBSCRIPTIONS = _parse("subscription_id int, consumer_group string, topic_id int, start string")
CURSORS = _parse("subscription_id int, queue_id int, committed bigint, start_offset bigint")
# Dead ones, and those that the group was moved over: what it need not apply.
DEAD_LETTERS = _parse("subscription_id int, message_id bigint, attempts int")
# How often a seek back brought a message again.
AGAIN = _parse("consumer_group string, topic string, message_id bigint, times bigint")

LEDGER = _parse("ledger string, message_id bigint, nonce string, entry string, created_at timestamp, done_at timestamp")
# Committed rows of a ledger, as reconciliation reads them.
PROMISES = _parse("ledger string, handle string, message_id bigint, nonce string")
# own: the ledger is mqpg.ledger, in the broker's own database.
LEDGER_GROUPS = _parse("producer_group_id int, producer_group string, ledger string, own boolean")
APPLIED = _parse(
    "consumer_group string, topic string, queue_id int, queue_offset bigint, message_id bigint, applied_at timestamp"
)
# Messages that a group's own database defers: its position is beyond them, a retry is to apply them.
DEFERRED = _parse("consumer_group string, topic string, message_id bigint")
OFFSETS = _parse("consumer_group string, topic string, queue_id int, next_offset bigint")


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with exactly the schema's columns, in its order and types."""
    return frame.select(*(F.col(column.name).cast(column.dataType).alias(column.name) for column in schema))
