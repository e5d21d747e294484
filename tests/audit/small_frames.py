"""Rows and small frames for the tests of the audit's pure functions."""

import hashlib
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

__all__ = ["HALF", "NOW", "body", "decision", "delay", "frame", "handle_hashes", "nonce"]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HALF = {"kind": "h", "producer_group_id": 1, "check_at": NOW}


def frame(spark: SparkSession, schema: StructType, *rows: dict[str, Any]) -> DataFrame:
    """Make a frame of rows. A column that a row leaves out is null."""
    return spark.createDataFrame([tuple(row.get(name) for name in schema.fieldNames()) for row in rows], schema)


def body(batch: int, **columns: Any) -> dict[str, Any]:
    common = {"first_id": batch * 1024, "n": 1, "xid": 700 + batch, "born_at": NOW, "topic_id": 1, "kind": "n"}
    if columns.get("kind") == "h":
        common |= handle_hashes(batch)
    return common | {"covered": True, "may_be_dropped": False, "decision_gone": False} | columns


def nonce(batch: int) -> str:
    """The nonce in the handle of the first half message of a batch that is like HALF."""
    return f"{batch:032x}"


def handle_hashes(batch: int) -> dict[str, Any]:
    """What the view shows of that handle."""
    return {"handle_hashes": [hashlib.sha256(bytes.fromhex(nonce(batch))).hexdigest()]}


def decision(batch: int, op: str, stage: int = 0, **columns: Any) -> dict[str, Any]:
    common = {"message_id": batch * 1024, "stage": stage, "op": op, "xid": 900 + batch, "at": NOW}
    return common | {"decided_by": "producer", "covered": True, "may_be_dropped": False} | columns


def delay(batch: int, *, due: bool) -> dict[str, Any]:
    return {"first_id": batch * 1024, "n": 1, "visible_at": NOW, "xid": 1, "topic_id": 1, "subscription_id": 0,
            "attempt": 1, "due": due, "covered": True, "may_be_dropped": False}  # fmt: skip
