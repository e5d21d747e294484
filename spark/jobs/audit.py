"""The audit: read all databases, derive the frames, look for anomalies, give a verdict, report."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from mqpg.audit.conclusions import equations, histograms, holes, unfinished, without_messages
from mqpg.audit.counted import held_against_counts, outbox_counts
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import PURGED, UNATTRIBUTED, NotJudged, Report
from mqpg.audit.verdict import Relation, rule
from mqpg.embedded.locate import resolve

from .. import anomalies
from ..derive import conservation
from ..derive.batch_ids import count_holes
from ..derive.frames import Frames, derive_frames
from ..derive.timeline import late_commits
from ..read.archive import require_visible
from ..read.audit_reader import connect_once, read_inputs
from ..read.inputs import AuditInputs
from ..read.jdbc_jar import JdbcJar, find_jdbc_jar
from ..read.session import open_session, run_concurrently
from ..read.stores import open_store
from ..read.tuning import Tuning
from .over_time import over_time
from .search import Search, add_findings, count_anomalies, searches

__all__ = ["AuditOptions", "run_audit", "run_audit_in"]


def run_audit(options: AuditOptions, *, threads: int | None = None, memory: str | None = None) -> Report:
    """Run one audit in a Spark session of its own.

    Args:
        options: What is audited.
        threads: Threads of a local session. None means one for each core, two to four.
        memory: The heap of the JVM, in Spark's notation. None means 1 GiB for a small audit, and a
            quarter of the machine's memory, 1 GiB to 2.5 GiB, for a large one.

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
    messages = connect_once(options)
    with open_session(threads, jar=jar, memory=memory, tuning=Tuning(messages)) as spark:
        return run_audit_in(spark, options, jar=jar, started=started, messages=messages)


def run_audit_in(
    spark: SparkSession,
    options: AuditOptions,
    *,
    jar: JdbcJar | None = None,
    started: float | None = None,
    messages: int | None = None,
) -> Report:
    """Run one audit in a given session.

    Args:
        spark: The session.
        options: What is audited.
        jar: The session's JDBC driver, for the report. None means that it is not known.
        started: The monotonic time from which the report counts its seconds. None means now.
        messages: About how many messages there are. None asks the databases.

    Returns:
        The report.

    Raises:
        ConnectionFailed: A database does not answer.
        SchemaError: The broker's schema is missing, or this release cannot work with it.
        NotFound: The broker has no such topic, consumer group or producer group.
        LedgerError: A database has no journal or ledger.
        UnpinnedRead: Spark read rows that are not those of the pinned snapshots.
        ConfigurationError: A file of the archive is not the one that the broker noted, or the
            executors cannot see the archive.
    """
    if options.archive is not None:
        require_visible(spark, str(options.archive))
    read_from = time.monotonic()
    messages = connect_once(options) if messages is None else messages
    tuning = Tuning(messages, spark.sparkContext.defaultParallelism)
    try:
        with open_store(spark, tuning, options.staging) as store:
            inputs = read_inputs(spark, options, store)
            read_until = time.monotonic()
            run = _run_row(inputs, options, jar, started or read_from, read_from, read_until)
            run["master"] = spark.sparkContext.master
            return _report(derive_frames(inputs, store), inputs, options, run, tuning)
    finally:
        spark.catalog.clearCache()
        # Objects of py4j refer to themselves, so their plans stay in the JVM until Python's
        # collector runs. The JVM of a session with many audits would fill up before.
        gc.collect()


def _report(frames: Frames, inputs: AuditInputs, options: AuditOptions, run: dict[str, Any], tuning: Tuning) -> Report:
    figures = _figures(frames, inputs, options, exact=tuning.small)
    results = run_concurrently(
        *(partial(_look, search, options, tuning) for search in searches(frames, inputs, options)), *figures.values()
    )
    counts, examples = add_findings(*results[: -len(figures)])
    found = dict(zip(figures, results[-len(figures) :], strict=True))
    not_judged = [
        *inputs.not_judged,
        *(NotJudged(PURGED, row["ledger"], row["messages"]) for row in found["purged"]),
        *(NotJudged(UNATTRIBUTED, row["consumer_group"], row["messages"]) for row in found["unattributed"]),
    ]
    if inputs.all_topics:  # Batches of other topics are not read.
        inputs.broker["left_out"] += holes(found["holes"][0]["holes"])
    topics, groups, lag = found["topics"], found["groups"], found["lag"]
    relations = held_against_counts(
        _relations(found["ledgers"], frames), outbox_counts(options, resolve(options.dsn), inputs.broker["broker_id"])
    )
    balance = equations(topics, groups)
    doubts = inputs.doubts + without_messages(topics)
    if options.drained:
        doubts += unfinished(topics, groups, lag, not_judged)
    ruling = rule(counts, balance, relations, doubts)
    run["seconds"] = round(time.monotonic() - run.pop("_started"), 3)
    return Report(
        run,
        ruling.verdict,
        ruling.reasons,
        counts,
        examples,
        balance,
        relations,
        not_judged,
        found["notes"][1],
        topics,
        groups,
        lag,
        histograms(found["redelivery"]),
        _percentiles(found["latency"]),
        found["timeline"],
        found["late"],
    )


def _look(search: Search, options: AuditOptions, tuning: Tuning) -> tuple[dict[str, int], list[dict[str, Any]]]:
    # Each task is sent the plan of the whole search. With one for each part of it, that takes
    # longer than a small search.
    found = search()
    return count_anomalies(found.coalesce(1) if tuning.small else found, options.examples)


def _figures(
    frames: Frames, inputs: AuditInputs, options: AuditOptions, *, exact: bool
) -> dict[str, Callable[[], Any]]:
    """What the report says besides the anomalies, each part by its name."""
    purged_before = (inputs.taken_at - options.ledger_keep).isoformat()
    matches, entries, deliveries = frames.ledger_matches, frames.entries, frames.deliveries
    effects, queued_ids = frames.effects, frames.queued_ids
    rows = {
        "holes": lambda: count_holes(frames.bodies, frames.decisions, inputs.segments, floor_id=inputs.floor_id),
        "topics": lambda: conservation.topic_totals(frames.messages, entries, queued_ids, frames.topics),
        "groups": lambda: conservation.group_totals(deliveries, effects, queued_ids),
        "ledgers": lambda: conservation.ledger_totals(
            matches, effects, deliveries, queued_ids, purged_before=purged_before
        ),
        "lag": lambda: conservation.lag(frames.positions),
        "latency": lambda: conservation.latencies(
            frames.messages, entries, deliveries, frames.ticks, frames.topics, exact=exact
        ),
        "redelivery": lambda: conservation.redelivery(deliveries),
        "late": lambda: late_commits(entries),
        "purged": lambda: conservation.without_ledger_row(matches, purged_before=purged_before),
        "unattributed": lambda: conservation.unattributed_rows(effects),
    }
    return {
        "notes": lambda: count_anomalies(anomalies.override(matches), options.examples),
        **{name: partial(_rows, derive) for name, derive in rows.items()},
        "timeline": lambda: over_time(frames),
    }


def _relations(ledgers: list[dict[str, Any]], frames: Frames) -> list[Relation]:
    names = {row["topic_id"]: row["topic"] for row in frames.topics.collect()}
    return [Relation(topic=names[row.pop("topic_id")], **row) for row in ledgers]


def _rows(derive: Callable[[], DataFrame]) -> list[dict[str, Any]]:
    """Return the rows in a fixed order. Sorting a few rows here is faster than a stage of Spark."""
    return sorted((row.asDict() for row in derive().collect()), key=lambda row: [str(value) for value in row.values()])


def _percentiles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    named = []
    for row in rows:
        p50, p95, p99 = row.pop("seconds")
        named.append(row | {"p50": p50, "p95": p95, "p99": p99, "max": row.pop("max")})
    return named


def _run_row(
    inputs: AuditInputs, options: AuditOptions, jar: JdbcJar | None, started: float, read_from: float, read_until: float
) -> dict[str, Any]:
    total = sum(inputs.rows.values())
    return {
        "run_id": str(uuid.uuid4()),
        "at": datetime.now(UTC),
        "engine": "spark",
        "broker": inputs.broker,
        "snapshots": [asdict(one) for one in inputs.snapshots],
        "rows": total,
        "rows_by_source": inputs.rows,
        "read_seconds": round(read_until - read_from, 3),
        "rows_per_second": round(total / max(read_until - read_from, 1e-9)),
        "drained": options.drained,
        "spark_version": pyspark.__version__,
        "jdbc": str(jar) if jar else "the session's own",
        **({"archive": asdict(inputs.archive)} if inputs.archive else {}),
        "_started": started,
    }
