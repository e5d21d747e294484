"""The audit job: all frames in, one report out."""

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
from ..derive.frames import Frames, derive
from ..derive.stage import stage
from ..read.audit_reader import gather, probe
from ..read.inputs import Inputs
from ..read.jar import JdbcJar, find_jdbc_jar
from ..read.options import AuditOptions
from ..read.session import interpreted, open_session, together
from .report import Report
from .verdict import Equation, Relation, rule

__all__ = ["AuditOptions", "run_audit", "run_audit_in"]


def run_audit(options: AuditOptions, *, threads: int | None = None) -> Report:
    """Runs one audit in a Spark session of its own. Raises what `gather` and `open_session` raise."""
    started, jar = time.monotonic(), find_jdbc_jar()
    probe(options)
    with open_session(threads, jar=jar) as spark:
        return run_audit_in(spark, options, jar=jar, started=started)


def run_audit_in(
    spark: SparkSession, options: AuditOptions, *, jar: JdbcJar | None = None, started: float | None = None
) -> Report:
    """Runs one audit in a given session; `started` is the monotonic time that its seconds count from."""
    begun = time.monotonic()
    with interpreted(spark):
        inputs = gather(spark, options)
    read = time.monotonic()
    try:
        with stage(spark, sum(inputs.rows.values())) as to:
            run = _run_row(inputs, options, jar, started or begun, begun, read)
            return _report(derive(inputs, to), inputs, options, run)
    finally:
        spark.catalog.clearCache()


def _anomalies(frames: Frames, inputs: Inputs, options: AuditOptions) -> DataFrame:
    now = inputs.taken_at
    purged_before = (now - options.ledger_keep).isoformat()
    strays_before = {
        ledger: None if options.drained else (now - timedelta(seconds=seconds)).isoformat()
        for ledger, seconds in inputs.ledger_tolerance.items()
    }
    found = [
        anomalies.lost(frames.known, frames.placed, frames.delivered, frames.topics),
        anomalies.duplicated(frames.placed, frames.applied, frames.again),
        anomalies.phantom(frames.placed, frames.applied, frames.promised, purged_before=purged_before),
        anomalies.early(
            frames.placed,
            frames.applied,
            frames.promised,
            frames.ticks,
            tolerances=inputs.group_tolerance,
            ledger_tolerances=inputs.ledger_tolerance,
            purged_before=purged_before,
        ),
        anomalies.undecided(
            frames.known,
            frames.seen,
            frames.topics,
            overdue_before=None if options.drained else (now - options.slack).isoformat(),
        ),
        anomalies.gap(frames.queue_rows, frames.where, frames.topics, complete=inputs.complete),
        anomalies.mismatch(
            frames.promised, frames.applied, frames.delivered, frames.dropped, strays_before=strays_before
        ),
    ]
    everything = found[0]
    for frame in found[1:]:
        everything = everything.unionByName(frame)
    return everything


def _counted(found: DataFrame, examples: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Full counts by kind, and the first rows of each."""
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
                    "dead letters": row["dead"],
                    "ahead": row["ahead"],
                },
            )
        )
    return result


def _doubts(
    inputs: Inputs,
    options: AuditOptions,
    topics: list[dict[str, Any]],
    groups: list[dict[str, Any]],
    lag: list[dict[str, Any]],
) -> list[str]:
    doubts = list(inputs.doubts)
    if not any(row[name] for row in topics for name in ("sent", "prepared", "queued")):
        doubts.append("nothing was read: there is no message to judge")
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


def _report(frames: Frames, inputs: Inputs, options: AuditOptions, run: dict[str, Any]) -> Report:
    purged_before = (inputs.taken_at - options.ledger_keep).isoformat()
    names = {row["topic_id"]: row["topic"] for row in frames.topics.collect()}
    found = _anomalies(frames, inputs, options)
    (counts, examples), topics, groups, ledgers, lag, latency, redelivery = together(
        lambda: _counted(found, options.examples),
        lambda: _rows(conservation.topic_accounts(frames.known, frames.placed, frames.queued, frames.topics)),
        lambda: _rows(conservation.group_accounts(frames.delivered, frames.applied, frames.queued)),
        lambda: _rows(
            conservation.ledger_accounts(
                frames.promised, frames.applied, frames.delivered, frames.queued, purged_before=purged_before
            )
        ),
        lambda: _rows(conservation.lag(frames.where)),
        lambda: _rows(
            conservation.latencies(frames.known, frames.placed, frames.delivered, frames.ticks, frames.topics)
        ),
        lambda: _rows(conservation.redelivery(frames.delivered)),
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
    """The rows, in an order of their own: sorting some few is not worth a stage of Spark's."""
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
    inputs: Inputs, options: AuditOptions, jar: JdbcJar | None, started: float, begun: float, read: float
) -> dict[str, Any]:
    total = sum(inputs.rows.values())
    return {
        "run_id": str(uuid.uuid4()),
        "at": datetime.now(UTC),
        "broker": inputs.broker,
        "snapshots": [asdict(one) for one in inputs.reads],
        "rows": total,
        "rows_by_source": inputs.rows,
        "read_seconds": round(read - begun, 3),
        "rows_per_second": round(total / max(read - begun, 1e-9)),
        "drained": options.drained,
        "spark_version": pyspark.__version__,
        "jdbc": str(jar) if jar else "of the session",
        "_started": started,
    }
