"""The pure functions on small frames: states of messages, offsets of runs, gaps, early effects."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqpg.spark import anomalies
from mqpg.spark.derive import messages
from mqpg.spark.read import schemas
from tests.audit.small_frames import HALF, NOW, body, decision, delay, frame

pytestmark = pytest.mark.spark


def test_states_of_messages(spark: SparkSession) -> None:
    bodies = frame(
        spark, schemas.BODIES,
        body(1), body(2, covered=False), body(3, kind="f"), body(4, **HALF), body(5, **HALF), body(6, **HALF),
        body(7, kind="d"), body(8, kind="d"), body(9, kind="d"), body(10, kind="d"), body(11, **HALF),
        body(12, **(HALF | {"decision_gone": True})), body(13, may_be_dropped=True), body(14, kind="d"),
        body(15, kind="d"),
    )  # fmt: skip
    decisions = frame(
        spark, schemas.DECISIONS,
        decision(5, "c"), decision(6, "b"), decision(8, "r", 1), decision(9, "d", 1),
        decision(11, "c", visible_at=NOW),
    )  # fmt: skip
    delayed = frame(
        spark, schemas.DELAYED,
        delay(7, due=False), delay(8, due=True), delay(9, due=True), delay(10, due=True), delay(11, due=False),
        delay(15, due=True), delay(15, due=False),
    )  # fmt: skip
    found = {
        row["message_id"] // 1024: (row["state"], row["expected"], row["waiting"])
        for row in messages.derive_messages(bodies, decisions, delayed).collect()
    }
    assert found == {
        1: ("committed", True, False),
        2: ("committed", False, True),
        3: ("final", False, False),
        4: ("undecided", False, False),
        5: ("committed", True, False),
        6: ("rolled_back", False, False),
        7: ("delayed", False, False),
        8: ("recalled", False, False),
        9: ("committed", True, False),
        10: ("committed", True, False),
        11: ("delayed", False, False),
        12: ("committed", False, False),
        13: ("committed", False, False),
        14: ("committed", True, False),
        15: ("delayed", False, False),
    }


def queue_row(base: int, n: int, first_ids: list[int], starts: list[int], **columns: Any) -> dict[str, Any]:
    return {"base_offset": base, "tick_id": 1, "topic_id": 1, "subscription_id": 0, "n": n, "queue_id": 0,
            "first_ids": first_ids, "starts": starts} | columns  # fmt: skip


def test_runs_become_offsets(spark: SparkSession) -> None:
    rows = frame(spark, schemas.QUEUE_ROWS, queue_row(10, 4, [1024, 5000], [0, 3]))
    found = (
        messages.derive_entries(rows).orderBy("queue_offset").select("queue_offset", "message_id", "attempt").collect()
    )
    assert [tuple(row) for row in found] == [(10, 1024, 1), (11, 1025, 1), (12, 1026, 1), (13, 5000, 1)]


@pytest.mark.parametrize(
    ("rows", "complete", "expected"),
    [
        ([queue_row(0, 2, [1024], [0]), queue_row(2, 1, [2048], [0])], True, []),
        ([queue_row(5, 1, [1024], [0])], False, []),
        ([queue_row(5, 1, [1024], [0])], True, ["no row holds the offsets 0 to 4"]),
        ([queue_row(0, 1, [1024], [0]), queue_row(3, 1, [2048], [0])], True, ["no row holds the offsets 1 to 2"]),
        ([queue_row(0, 3, [1024, 2048, 3072], [0, 2, 1])], True, ["n = 3 does not fit the runs"]),
        ([queue_row(0, 2, [1024, 2048], [0, 2])], True, ["n = 2 does not fit the runs"]),
        # The run crosses the end of a record batch.
        ([queue_row(0, 2, [2047], [0])], True, ["n = 2 does not fit the runs"]),
    ],
)
def test_gaps(spark: SparkSession, rows: list[dict[str, Any]], complete: bool, expected: list[str]) -> None:
    positions = spark.sql("select 'g' consumer_group, 't' topic, 0 queue_id, 1L next_offset, 1L tail")
    topics = frame(spark, schemas.TOPICS, {"topic_id": 1, "topic": "t"})
    found = anomalies.gap(frame(spark, schemas.QUEUE_ROWS, *rows), positions, topics, complete=complete)
    evidence = sorted(row["evidence"] for row in found.collect())
    assert len(evidence) == len(expected)
    assert all(line.startswith(start) for line, start in zip(evidence, expected, strict=True))


def test_anomalies_have_one_schema(spark: SparkSession) -> None:
    positions = spark.sql("select 'g' consumer_group, 't' topic, 0 queue_id, 9L next_offset, 1L tail")
    topics = frame(spark, schemas.TOPICS, {"topic_id": 1, "topic": "t"})
    found = anomalies.gap(frame(spark, schemas.QUEUE_ROWS), positions, topics, complete=True)
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in schemas.ANOMALY]
    (row,) = found.collect()
    assert (row["kind"], row["consumer_group"], row["queue_offset"]) == ("gap", "g", 1)


@pytest.mark.parametrize(("lead", "tolerance", "early"), [(1, 0, 1), (1, 5, 0), (-1, 0, 0)])
def test_clocks_may_differ_by_the_tolerance(spark: SparkSession, lead: float, tolerance: float, early: int) -> None:
    from mqpg.spark.anomalies.early import _before_the_commit, _seconds

    effects = spark.createDataFrame(
        [("g", "t", "committed", NOW, None, NOW - timedelta(seconds=lead))],
        "consumer_group string, topic string, state string, committed_at timestamp, due_at timestamp, "
        "applied_at timestamp",
    )
    assert _before_the_commit(effects, _seconds("consumer_group", {"g": tolerance})).count() == early


def test_dropped_segments_explain_missing_messages(spark: SparkSession) -> None:
    found = spark.createDataFrame([(5000, 1), (9000, 1)], "message_id bigint, topic_id int")
    stored = messages.derive_messages(
        frame(spark, schemas.BODIES), frame(spark, schemas.DECISIONS), frame(spark, schemas.DELAYED)
    )
    topics = frame(spark, schemas.TOPICS, {"topic_id": 1, "topic": "t"})
    states = (
        messages.add_message_state(found, stored, topics, [(4096, 8191)])
        .orderBy("message_id")
        .select("state")
        .collect()
    )
    assert [row["state"] for row in states] == ["expired", "missing"]
