"""Reconciliation by set difference (protocol T6) with Spark: whole ledgers against whole brokers.

Each database is read at one snapshot, the ledger first and the broker after it. Rows younger than
`older_than` are left to their producers. So a ledger row whose half message has no commit decision
is a lost commit: its local transaction committed before the broker was read, and its producer had
enough time. Each hit is looked up again before it is committed, so any number of these jobs and of
Reconcilers may run at the same time.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mqpg
from mqpg.embedded.locate import resolve
from mqpg.values.errors import LedgerError
from mqpg.values.messages import Unsettled, Verdict

from ..derive.messages import IdRanges, expand_batches, hash_nonces, in_ranges
from ..read import queries, schemas, user_queries
from ..read.database import is_postgresql, parse_database
from ..read.horizon import HORIZON, Horizon
from ..read.jdbc import JdbcReader
from ..read.jdbc_jar import find_jdbc_jar
from ..read.session import open_session, without_codegen
from ..read.snapshot import Snapshot, pinned_snapshot
from ..read.sqlalchemy_reader import SqlalchemySnapshot

__all__ = ["ReconcileOptions", "connect_once", "missing_commits", "reconcile", "reconcile_in"]


@dataclass(frozen=True)
class ReconcileOptions:
    """What is compared.

    Attributes:
        dsns: The brokers. Empty means the one that the environment names.
        ledgers: The URLs of ledgers. Each may have handles of all brokers. Empty means the ledger
            in each broker's own database.
        older_than: Younger ledger rows are left to their producers.
        settle: Whether lost commits are committed. False only lists them.
        partitions: The most partitions in which one query is read.
        max_messages: How many hits of one broker are collected and committed at a time.
    """

    dsns: tuple[str, ...] = ()
    ledgers: tuple[str, ...] = ()
    older_than: timedelta = timedelta(minutes=1)
    settle: bool = True
    partitions: int = 2
    max_messages: int = 100_000


def connect_once(options: ReconcileOptions) -> None:
    """Connect to every broker and ledger once, before a JVM is started.

    A wrong URL is reported at once for that reason.
    """
    for dsn in options.dsns or (resolve(None),):
        with mqpg.connect(dsn):
            pass
    for url in options.ledgers:
        with mqpg.Ledger(url) as ledger:
            ledger._open_rows(1)


def reconcile(options: ReconcileOptions, *, threads: int | None = None) -> list[Unsettled]:
    """Compare once, in a Spark session of its own.

    Args:
        options: What is compared.
        threads: Threads of a local session. None means one for each core, two to four.

    Returns:
        What was found, with the outcome of each commit.

    Raises:
        ConnectionFailed: A database does not answer. What was committed before stays committed.
        SchemaError: A broker's schema is missing, or this release cannot work with it.
        LedgerError: A ledger's table is missing or cannot be read.
        UnpinnedRead: Spark read rows that are not those of the pinned snapshots.
        ConfigurationError: There is no Java, no usable JDBC driver, or a URL is wrong.
    """
    with open_session(threads, jar=find_jdbc_jar()) as spark:
        return reconcile_in(spark, options)


def reconcile_in(spark: SparkSession, options: ReconcileOptions) -> list[Unsettled]:
    """Compare once, in a given session.

    Args:
        spark: The session.
        options: What is compared.

    Returns:
        What was found, with the outcome of each commit.

    Raises:
        ConnectionFailed: A database does not answer. What was committed before stays committed.
        SchemaError: A broker's schema is missing, or this release cannot work with it.
        LedgerError: A ledger's table is missing or cannot be read.
        UnpinnedRead: Spark read rows that are not those of the pinned snapshots.
    """
    found: list[Unsettled] = []
    for dsn in options.dsns or (resolve(None),):
        hits = _compare(spark, dsn, options)
        found += _commit_hits(dsn, hits, options) if options.settle else [hit.found for hit in hits]
    return found


def missing_commits(
    local_commits: DataFrame, bodies: DataFrame, decisions: DataFrame, dropped_ranges: IdRanges
) -> DataFrame:
    """Find ledger rows (`schemas.LOCAL_COMMITS`) whose half message has no commit decision.

    `dropped_ranges` are the ids of messages that retention has dropped. Returns rows (ledger, handle,
    message_id, topic_id, state), with the state undecided, rolled_back or absent.
    """
    halves = expand_batches(bodies.where("kind = 'h'")).select(
        "message_id", "handle_hash", "topic_id", F.lit(True).alias("exists")
    )
    ops = decisions.where("stage = 0").select("message_id", "op")
    rows = hash_nonces(local_commits)
    joined = rows.join(halves, ["message_id", "handle_hash"], "left").join(ops, "message_id", "left")
    exists = F.coalesce("exists", F.lit(False))
    dropped = in_ranges("message_id", dropped_ranges)
    state = (
        F.when(exists & F.col("op").isNull(), "undecided")
        .when((exists | dropped) & (F.col("op") == "b"), "rolled_back")
        .when(~exists & ~dropped, "absent")
    )
    return joined.withColumn("state", state).where("state is not null").drop("handle_hash", "exists", "op")


@dataclass(frozen=True)
class _Hit:
    ledger: str
    found: Unsettled


def _compare(spark: SparkSession, dsn: str, options: ReconcileOptions) -> list[_Hit]:
    reader = JdbcReader(spark, options.partitions)
    with without_codegen(spark), contextlib.ExitStack() as stack:
        own = parse_database(dsn)
        with mqpg.connect(dsn) as mq:
            broker_id = mq.info().broker_id
        ledgers = [
            _ledger(stack, reader, str(number), url, broker_id, options)
            for number, url in enumerate(options.ledgers or (own.conninfo,))
        ]
        broker = stack.enter_context(pinned_snapshot(own))
        horizon = Horizon.of(broker.rows(HORIZON)[0])
        frames = {
            query.name: reader.read(broker, query)
            for query in queries.broker_queries(None, horizon)
            if query.name in ("commit_log", "survivor", "op_log", "topic")
        }
        dropped_ranges = [(row["first_id"], row["last_id"]) for row in broker.rows(queries.DROPPED_SEGMENTS)]
        reader.verify()
        missing = missing_commits(
            reader.union(ledgers, schemas.LOCAL_COMMITS),
            frames["commit_log"].unionByName(frames["survivor"]),
            frames["op_log"],
            dropped_ranges,
        )
        rows = missing.join(frames["topic"], "topic_id", "left").limit(options.max_messages).collect()
        spark.catalog.clearCache()
    return sorted((_hit(row.asDict()) for row in rows), key=lambda hit: hit.found.message_id or 0)


def _hit(row: dict[str, Any]) -> _Hit:
    found = Unsettled(row["handle"], row["message_id"], row["topic"], None, row["state"], None)
    return _Hit(row["ledger"], found)


def _ledger(
    stack: contextlib.ExitStack, reader: JdbcReader, label: str, url: str, broker_id: str, options: ReconcileOptions
) -> DataFrame:
    if not is_postgresql(url):
        database = SqlalchemySnapshot.open(url)
        stack.callback(database.close)
        return database.local_commits(reader.spark, label, broker_id, options.older_than)
    snapshot: Snapshot = stack.enter_context(pinned_snapshot(parse_database(url)))
    # If no ledger is named, the one in the broker's own database is read.
    table = snapshot.find_ledger() if options.ledgers else snapshot.find_table("mqpg.audit_ledger")
    if table is None:
        raise LedgerError(f"{snapshot.database.name} has no table mqpg_ledger")
    before = snapshot.taken_at - options.older_than
    return reader.read(snapshot, user_queries.local_commits_query(label, table, broker_id, before))


def _commit_hits(dsn: str, hits: list[_Hit], options: ReconcileOptions) -> list[Unsettled]:
    """Commit what is undecided, after looking it up again at the broker and in its ledger."""
    with mqpg.connect(dsn) as mq, contextlib.ExitStack() as stack:
        used = {hit.ledger for hit in hits}
        ledgers = {
            str(number): stack.enter_context(mqpg.Ledger(url))
            for number, url in enumerate(options.ledgers)
            if str(number) in used
        }
        return [_commit_hit(mq, ledgers.get(hit.ledger), hit.found) for hit in hits]


def _commit_hit(mq: mqpg.Client, ledger: mqpg.Ledger | None, found: Unsettled) -> Unsettled:
    (now,) = mq.half_states([found.handle])
    outcome = None
    if now.state == "undecided":
        payload = None
        if ledger is not None:
            # Asking for the verdict again makes sure that the local commit is on disk.
            if ledger.verdict(found.handle) is not Verdict.COMMIT:
                return found
            payload = ledger.final_payload(found.handle)
        outcome = mq.commit(found.handle, payload)
    elif now.state == "committed":
        outcome = mqpg.Outcome.ALREADY_COMMITTED
    return Unsettled(found.handle, found.message_id, found.topic, now.key, found.state, outcome)
