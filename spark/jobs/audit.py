"""The audit: read all databases, derive the frames, look for anomalies, give a verdict, report."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from .. import anomalies
from ..derive import conservation
from ..derive.frames import Frames, derive_frames
from ..derive.parquet import open_parquet_store
from ..read.audit_reader import connect_once, read_inputs
from ..read.inputs import AuditInputs
from ..read.jar import JdbcJar, find_jdbc_jar
from ..read.options import AuditOptions
from ..read.session import open_session, run_concurrently, without_codegen
from .report import Report
from .verdict import Equation, Relation, rule

__all__ = ["AuditOptions", "run_audit", "run_audit_in"]


def run_audit(options: AuditOptions, *, threads: int | None = None) -> Report:
    """Run one audit in a Spark session of its own.

    Args:
        options: What is audited.
        threads: Threads of a local session. None means one for each core, two to four.

    Returns:
        The report.

    Raises:
        ConnectionFailed: A database does not answer.
        SchemaError: The broker's schema is missing, or this release cannot work with it.
        NotFound: The broker has no such topic, consumer group or producer group.
        LedgerError: A database has no journal or ledger.
        UnpinnedRead: Spark read rows that are not those of the pinned snapshots.
        ConfigurationError: There is no Java, no usable JDBC driver, or a URL is wrong.
    """
    started, jar = time.monotonic(), find_jdbc_jar()
    connect_once(options)
    with open_session(threads, jar=jar) as spark:
        return run_audit_in(spark, options, jar=jar, started=started)


def run_audit_in(
    spark: SparkSession, options: AuditOptions, *, jar: JdbcJar | None = None, started: float | None = None
) -> Report:
    """Run one audit in a given session.

    Args:
        spark: The session.
        options: What is audited.
        jar: The session's JDBC driver, for the report. None means that it is not known.
        started: The monotonic time from which the report counts its seconds. None means now.

    Returns:
        The report.

    Raises:
        ConnectionFailed: A database does not answer.
        SchemaError: The broker's schema is missing, or this release cannot work with it.
        NotFound: The broker has no such topic, consumer group or producer group.
        LedgerError: A database has no journal or ledger.
        UnpinnedRead: Spark read rows that are not those of the pinned snapshots.
    """
    read_from = time.monotonic()
    with without_codegen(spark):
        inputs = read_inputs(spark, options)
    read_until = time.monotonic()
    try:
        with open_parquet_store(spark, sum(inputs.rows.values())) as store:
            run = _run_row(inputs, options, jar, started or read_from, read_from, read_until)
            return _report(derive_frames(inputs, store), inputs, options, run)
    finally:
        spark.catalog.clearCache()


def _anomalies(frames: Frames, inputs: AuditInputs, options: AuditOptions) -> DataFrame:
    now = inputs.taken_at
    purged_before = (now - options.ledger_keep).isoformat()
    unmatched_before = {
        ledger: None if options.drained else (now - timedelta(seconds=seconds)).isoformat()
        for ledger, seconds in inputs.ledger_tolerance.items()
    }
    found = [
        anomalies.lost(frames.messages, frames.entries, frames.deliveries, frames.topics),
        anomalies.duplicated(frames.entries, frames.effects, frames.replays),
        anomalies.phantom(frames.entries, frames.effects, frames.ledger_matches, purged_before=purged_before),
        anomalies.early(
            frames.entries,
            frames.effects,
            frames.ledger_matches,
            frames.ticks,
            tolerances=inputs.group_tolerance,
            ledger_tolerances=inputs.ledger_tolerance,
            purged_before=purged_before,
        ),
        anomalies.undecided(
            frames.messages,
            frames.seen_ids,
            frames.topics,
            overdue_before=None if options.drained else (now - options.slack).isoformat(),
        ),
        anomalies.gap(frames.queue_rows, frames.positions, frames.topics, complete=inputs.complete),
        anomalies.mismatch(
            frames.ledger_matches,
            frames.effects,
            frames.deliveries,
            frames.dropped_ranges,
            unmatched_before=unmatched_before,
        ),
    ]
    everything = found[0]
    for frame in found[1:]:
        everything = everything.unionByName(frame)
    return everything


def _counted(found: DataFrame, examples: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Return the full count of each kind, and the first rows of each."""
    kind = Window.partitionBy("kind")
    ranked = found.withColumn("total", F.count(F.lit(1)).over(kind)).withColumn(
        "rank", F.row_number().over(kind.orderBy("topic", "consumer_group", "queue_id", "queue_offset", "message_id"))
    )
    rows = [row.asDict() for row in ranked.where(F.col("rank") <= max(1, examples)).orderBy("kind", "rank").collect()]
    counts = dict.fromkeys(anomalies.KINDS, 0) | {row["kind"]: row["total"] for row in rows}
    shown = [{name: value for name, value in row.items() if name not in ("total", "rank")} for row in rows]
    return counts, shown[:0] if examples == 0 else shown


def _equations(topics: list[dict[str, Any]], groups: list[dict[str, Any]]) -> list[Equation]:
    result = []
    for row in topics:
        scope = f"topic {row['topic']}"
        result.append(
            Equation(
                "prepared",
                scope,
                row["prepared"],
                {"committed": row["decided_commit"], "rolled back": row["rolled_back"], "undecided": row["undecided"]},
            )
        )
        result.append(
            Equation(
                "committed",
                scope,
                row["committed"],
                {"in queues": row["queued"], "waiting for the appender": row["waiting"], "dropped": row["dropped"]},
            )
        )
    for row in groups:
        result.append(
            Equation(
                "offsets",
                f"group {row['consumer_group']}, topic {row['topic']}",
                row["offsets"],
                {
                    "applied": row["applied"],
                    "in retry": row["retrying"],
                    "dead or skipped": row["dead"],
                    "not reached yet": row["ahead"],
                },
            )
        )
    return result


def _doubts(
    inputs: AuditInputs,
    options: AuditOptions,
    topics: list[dict[str, Any]],
    groups: list[dict[str, Any]],
    lag: list[dict[str, Any]],
) -> list[str]:
    doubts = list(inputs.doubts)
    if not any(row[name] for row in topics for name in ("sent", "prepared", "queued")):
        doubts.append("nothing was read: there is no message to audit")
    if not options.drained:
        return doubts
    for row in topics:
        for name, what in (("waiting", "wait for the appender"), ("delayed", "wait for their time")):
            if row[name]:
                doubts.append(f"not drained: {row[name]} messages of topic {row['topic']} {what}")
    for row in lag:
        doubts.append(
            f"not drained: group {row['consumer_group']} is {row['lag']} messages behind on topic {row['topic']}"
        )
    for row in groups:
        if row["retrying"]:
            doubts.append(
                f"not drained: {row['retrying']} messages of topic {row['topic']} are in retry "
                f"for group {row['consumer_group']}"
            )
    return doubts


def _report(frames: Frames, inputs: AuditInputs, options: AuditOptions, run: dict[str, Any]) -> Report:
    purged_before = (inputs.taken_at - options.ledger_keep).isoformat()
    names = {row["topic_id"]: row["topic"] for row in frames.topics.collect()}
    found = _anomalies(frames, inputs, options)
    (counts, examples), topics, groups, ledgers, lag, latency, redelivery = run_concurrently(
        lambda: _counted(found, options.examples),
        lambda: _rows(conservation.topic_totals(frames.messages, frames.entries, frames.queued_ids, frames.topics)),
        lambda: _rows(conservation.group_totals(frames.deliveries, frames.effects, frames.queued_ids)),
        lambda: _rows(
            conservation.ledger_totals(
                frames.ledger_matches, frames.effects, frames.deliveries, frames.queued_ids, purged_before=purged_before
            )
        ),
        lambda: _rows(conservation.lag(frames.positions)),
        lambda: _rows(
            conservation.latencies(frames.messages, frames.entries, frames.deliveries, frames.ticks, frames.topics)
        ),
        lambda: _rows(conservation.redelivery(frames.deliveries)),
    )
    relations = [Relation(topic=names[row.pop("topic_id")], **row) for row in ledgers]
    equations = _equations(topics, groups)
    ruling = rule(counts, equations, relations, _doubts(inputs, options, topics, groups, lag))
    run["seconds"] = round(time.monotonic() - run.pop("_started"), 3)
    return Report(
        run,
        ruling.verdict,
        ruling.reasons,
        counts,
        examples,
        equations,
        relations,
        topics,
        groups,
        lag,
        _histograms(redelivery),
        _percentiles(latency),
    )


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows in a fixed order. Sorting a few rows here is faster than a stage of Spark."""
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: [str(value) for value in row.values()])


def _percentiles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    named = []
    for row in rows:
        p50, p95, p99, most = row.pop("seconds")
        named.append(row | {"p50": p50, "p95": p95, "p99": p99, "max": most})
    return named


def _histograms(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    grouped: dict[tuple[str, str, str], dict[int, int]] = defaultdict(dict)
    for row in rows:
        grouped[row["what"], row["consumer_group"], row["topic"]][row["value"]] = row["messages"]
    return [
        {"what": what, "consumer_group": group, "topic": topic, "histogram": dict(sorted(histogram.items()))}
        for (what, group, topic), histogram in sorted(grouped.items())
    ]


def _run_row(
    inputs: AuditInputs, options: AuditOptions, jar: JdbcJar | None, started: float, read_from: float, read_until: float
) -> dict[str, Any]:
    total = sum(inputs.rows.values())
    return {
        "run_id": str(uuid.uuid4()),
        "at": datetime.now(UTC),
        "broker": inputs.broker,
        "snapshots": [asdict(one) for one in inputs.snapshots],
        "rows": total,
        "rows_by_source": inputs.rows,
        "read_seconds": round(read_until - read_from, 3),
        "rows_per_second": round(total / max(read_until - read_from, 1e-9)),
        "drained": options.drained,
        "spark_version": pyspark.__version__,
        "jdbc": str(jar) if jar else "the session's own",
        "_started": started,
    }
