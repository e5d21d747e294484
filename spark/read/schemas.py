"""The columns of every frame that the audit reads or returns.

Ids and transaction ids are bigint, times are UTC timestamps.
"""

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
    "LOCAL_COMMITS",
    "OFFSETS",
    "QUEUE_ROWS",
    "REPLAYS",
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
    "array<string>": ArrayType(StringType()),
    "array<bigint>": ArrayType(LongType()),
}


def _parse(text: str) -> StructType:
    # StructType.fromDDL needs a running JVM.
    columns = [column.split() for column in text.split(",")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns])


ANOMALY = _parse(
    "kind string, consumer_group string, topic string, queue_id int, queue_offset bigint, message_id bigint, "
    "evidence string"
)

# The log, one row for each record batch, and the surviving rows.
# covered: the newest tick's snapshot sees its transaction, so it must have an offset.
# may_be_dropped: the oldest remaining tick's snapshot sees its transaction, so its offset may have
# been dropped since.
# handle_hashes: for each half message the SHA-256 of the nonce in its handle. The handle itself is
# a secret of its producers.
# decision_gone: a half message whose decision retention has dropped.
BODIES = _parse(
    "first_id bigint, n int, xid bigint, born_at timestamp, topic_id int, producer_group_id int, kind string, "
    "check_at timestamp, covered boolean, may_be_dropped boolean, handle_hashes array<string>, decision_gone boolean"
)
# relayed_as: the message that delivers the commit of a half message of a relay topic.
DECISIONS = _parse(
    "message_id bigint, stage int, op string, xid bigint, at timestamp, visible_at timestamp, decided_by string, "
    "relayed_as bigint, covered boolean, may_be_dropped boolean"
)
# due: the due_until of the newest tick has reached its time.
DELAYED = _parse(
    "first_id bigint, n int, visible_at timestamp, xid bigint, topic_id int, subscription_id int, attempt int, "
    "due boolean, covered boolean, may_be_dropped boolean"
)
QUEUE_ROWS = _parse(
    "base_offset bigint, tick_id bigint, topic_id int, subscription_id int, n int, queue_id int, "
    "first_ids array<bigint>, starts array<int>, attempts array<int>"
)
TICKS = _parse("tick_id bigint, xmax bigint, xip array<bigint>, due_until timestamp, at timestamp")
TOPICS = _parse("topic_id int, topic string")
SUBSCRIPTIONS = _parse("subscription_id int, consumer_group string, topic_id int, start string")
CURSORS = _parse("subscription_id int, queue_id int, committed bigint, start_offset bigint")
# Messages that a group does not have to apply: its dead letters, and those that it skipped.
DEAD_LETTERS = _parse("subscription_id int, message_id bigint, attempts int")
# How often a seek back delivered a message again.
REPLAYS = _parse("consumer_group string, topic string, message_id bigint, times bigint")

LEDGER = _parse("ledger string, message_id bigint, nonce string, entry string, created_at timestamp, done_at timestamp")
# Rows of a ledger whose local transaction committed, as reconciliation reads them.
LOCAL_COMMITS = _parse("ledger string, handle string, message_id bigint, nonce string")
# in_broker: the ledger is mqpg.audit_ledger, in the broker's own database.
LEDGER_GROUPS = _parse("producer_group_id int, producer_group string, ledger string, in_broker boolean")
APPLIED = _parse(
    "consumer_group string, topic string, queue_id int, queue_offset bigint, message_id bigint, applied_at timestamp"
)
# Messages that a group deferred in its own database. Its position is beyond them, and a retry will
# apply them.
DEFERRED = _parse("consumer_group string, topic string, message_id bigint")
OFFSETS = _parse("consumer_group string, topic string, queue_id int, next_offset bigint")


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """Select exactly a schema's columns.

    Args:
        frame: A frame with at least these columns.
        schema: The columns.

    Returns:
        The columns in the schema's order and types.
    """
    return frame.select(*(F.col(column.name).cast(column.dataType).alias(column.name) for column in schema))
