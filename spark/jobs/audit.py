"""The audit with Spark: read all databases, derive the frames, look for anomalies, report."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark
from pyspark.sql import DataFrame, SparkSession

from mqpg.audit.options import AuditOptions, every_url
from mqpg.audit.report import Report
from mqpg.audit.sql.engine import conclude, describe_run
from mqpg.audit.sql.reader import Inputs, read_inputs
from mqpg.audit.sql.sources import open_source
from mqpg.audit.sql.statements import statement
from mqpg.audit.sql.totals import Totals
from mqpg.embedded.locate import resolve
from mqpg.schema import migrate

from ..read.jdbc_jar import JdbcJar, find_jdbc_jar
from ..read.portable import columns_of_table, spark_schema
from ..read.session import open_session, own_session
from ..read.size import estimate_messages
from ..read.stores import open_store
from ..read.tuning import Tuning
from ..workspace import SparkWorkspace, open_spark_workspace

__all__ = ["AuditOptions", "audit_frames", "connect_once", "findings_frame", "run_audit", "run_audit_in"]


def connect_once(options: AuditOptions) -> int:
    """Connect to every database once, before a JVM is started, and ask about how many messages they have.

    A wrong URL is reported at once for that reason, and the JVM can be started to match.
    """
    dsn = resolve(options.dsn)
    migrate.check(dsn)
    messages = 0
    for url in {dsn, *every_url(options)}:
        with open_source(url) as source:
            messages = max(messages, estimate_messages(source))
    return messages


def run_audit(options: AuditOptions, *, threads: int | None = None, memory: str | None = None) -> Report:
    """Run one audit, as `run_audit_in` does, in a session of its own. See `open_session`."""
    started, jar = time.monotonic(), find_jdbc_jar()
    messages = connect_once(options)
    with open_session(threads, jar=jar, memory=memory, tuning=Tuning(messages)) as spark:
        return run_audit_in(spark, options, jar=jar, started=started, messages=messages)


def findings_frame(spark: SparkSession, report: Report) -> DataFrame:
    """The examples of a report as a frame, to join them with other frames.

    Args:
        spark: The session of the frame.
        report: A report of either engine. With a large `AuditOptions.examples` it has all anomalies.

    Returns:
        A row for each: kind, consumer_group, topic, queue_id, queue_offset, message_id, evidence.
    """
    schema = spark_schema(columns_of_table(statement("tables", "anomaly")))
    return spark.createDataFrame([tuple(row[name] for name in schema.names) for row in report.examples], schema)


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
        spark: The session. Its views and settings stay as they are.
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
        ConfigurationError: A URL is wrong.
    """
    begun = time.monotonic()
    with _derived(spark, options, messages) as (work, inputs, read_seconds):
        with work.reader.store.threads() as beside:
            totals = beside.submit(Totals, work)
            counts = work.judge()
        run = describe_run("spark", inputs, options, read_seconds) | {
            "spark_version": pyspark.__version__,
            "jdbc": str(jar) if jar else "the session's own",
            "master": spark.sparkContext.master,
        }
        return conclude(work, inputs, options, counts, totals.result(), run, started or begun)


@contextmanager
def audit_frames(spark: SparkSession, options: AuditOptions) -> Iterator[SparkSession]:
    """Open a session with the frames that an audit derives, and does not judge, until the block ends.

    Its views are those of the audit's texts, whose headers explain the columns (`mqpg/audit/sql/`,
    `read` and `frames`). Among them are `message`, `delivery` (one row for each group with a journal
    and each offset), `decision` and `effect` (a row of a journal).

    Args:
        spark: The session. Its views and settings stay as they are.
        options: What is read. `examples` counts for nothing.

    Raises:
        Error: As in `run_audit_in`.
    """
    with _derived(spark, options) as (work, _, _):
        yield work.spark


@contextmanager
def _derived(
    spark: SparkSession, options: AuditOptions, messages: int | None = None
) -> Iterator[tuple[SparkWorkspace, Inputs, float]]:
    """Read all databases, and derive the frames. Yields also the seconds of the reading."""
    messages = connect_once(options) if messages is None else messages
    tuning = Tuning(messages, spark.sparkContext.defaultParallelism)
    dsn = resolve(options.dsn)
    try:
        with (
            own_session(spark) as own,
            open_store(own, tuning) as store,
            open_spark_workspace(own, dsn, options.partitions, store) as work,
        ):
            read_from = time.monotonic()
            inputs = read_inputs(work, dsn, options)
            read_seconds = time.monotonic() - read_from
            work.derive()
            yield work, inputs, read_seconds
    finally:
        # Objects of py4j refer to themselves, so their plans stay in the JVM until Python's
        # collector runs. The JVM of a session with many audits would fill up before.
        gc.collect()
