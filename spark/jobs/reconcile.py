"""The set-difference plan as a Spark job (protocol T6): whole ledgers against whole brokers, each at one snapshot.

A ledger is read first and the broker after it, and rows younger than older_than are left to their producers. So a row
whose half no commit decided is a lost commit: its local transaction had committed before, and its producer has had its
time. Each hit is looked at again when it is settled, so any number of jobs, and of Reconciler, may run at once.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import mqpg
from mqpg.dsn import resolve
from mqpg.errors import LedgerError
from mqpg.message import Unsettled, Verdict

from ..derive.messages import Segments, expand, in_segments
from ..read import queries, schemas
from ..read.database import is_postgresql, parse_database
from ..read.jar import find_jdbc_jar
from ..read.jdbc import Reader
from ..read.session import interpreted, open_session
from ..read.snapshot import Snapshot, pinned, table_named
from ..read.sqlalchemy_reader import LocalDatabase

__all__ = ["ReconcileOptions", "probe", "reconcile", "reconcile_in", "unsettled"]


@dataclass(frozen=True)
class ReconcileOptions:
    """What to compare. dsns: brokers; ledgers: URLs, each may hold handles of all of them; none: the brokers' own.

    older_than: rows younger than this are left alone. most: how many hits are collected and settled at a time.
    """

    dsns: tuple[str, ...] = ()
    ledgers: tuple[str, ...] = ()
    older_than: timedelta = timedelta(minutes=1)
    settle: bool = True
    partitions: int = 2
    most: int = 100_000


def probe(options: ReconcileOptions) -> None:
    """Reaches every broker and ledger once. Raises ConnectionFailed, SchemaError, LedgerError."""
    for dsn in options.dsns or (resolve(None),):
        with mqpg.connect(dsn):
            pass
    for url in options.ledgers:
        with mqpg.Ledger(url) as ledger:
            ledger.open_rows(1)


def reconcile(options: ReconcileOptions, *, threads: int | None = None) -> list[Unsettled]:
    """One comparison in a Spark session of its own. Raises as `reconcile_in`, and ConfigurationError without Java."""
    with open_session(threads, jar=find_jdbc_jar()) as spark:
        return reconcile_in(spark, options)


def reconcile_in(spark: SparkSession, options: ReconcileOptions) -> list[Unsettled]:
    """One comparison in a given session; what it found, and what became of it.

    Raises ConnectionFailed, SchemaError, LedgerError, UnpinnedRead. What was settled before stays so.
    """
    found: list[Unsettled] = []
    for dsn in options.dsns or (resolve(None),):
        hits = _compare(spark, dsn, options)
        found += _settle(dsn, hits, options) if options.settle else [hit.found for hit in hits]
    return found


def unsettled(promised: DataFrame, bodies: DataFrame, decisions: DataFrame, dropped: Segments) -> DataFrame:
    """Ledger rows without a commit decision: (ledger, handle, message_id, topic_id, state).

    promised: (ledger, handle, message_id, nonce); bodies, decisions: as the audit reads them; dropped: ranges of ids
    whose messages are dropped. state: undecided, rolled_back, absent.
    """
    halves = expand(bodies.where("kind = 'h'")).select("message_id", "nonce", "topic_id", F.lit(True).alias("here"))
    ops = decisions.where("stage = 0").select("message_id", "op")
    joined = promised.join(halves, ["message_id", "nonce"], "left").join(ops, "message_id", "left")
    known = F.coalesce("here", F.lit(False))
    gone = in_segments("message_id", dropped)
    state = (
        F.when(known & F.col("op").isNull(), "undecided")
        .when((known | gone) & (F.col("op") == "b"), "rolled_back")
        .when(~known & ~gone, "absent")
    )
    return joined.withColumn("state", state).where("state is not null").drop("nonce", "here", "op")


@dataclass(frozen=True)
class _Hit:
    ledger: str
    found: Unsettled


def _compare(spark: SparkSession, dsn: str, options: ReconcileOptions) -> list[_Hit]:
    reader = Reader(spark, options.partitions)
    with interpreted(spark), contextlib.ExitStack() as stack:
        own = parse_database(dsn)
        with mqpg.connect(dsn) as mq:
            broker_id = mq.info().broker_id
        ledgers = [
            _ledger(stack, reader, str(number), url, broker_id, options)
            for number, url in enumerate(options.ledgers or (own.conninfo,))
        ]
        broker = stack.enter_context(pinned(own))
        frames = {
            source.name: reader.read(broker, source)
            for source in queries.broker_sources(None)
            if source.name in ("commit_log", "survivor", "op_log", "topic")
        }
        dropped = [(row["first_id"], row["last_id"]) for row in broker.rows(queries.DROPPED_SEGMENTS)]
        reader.seal()
        missing = unsettled(
            reader.union(ledgers, schemas.PROMISES),
            frames["commit_log"].unionByName(frames["survivor"]),
            frames["op_log"],
            dropped,
        )
        rows = missing.join(frames["topic"], "topic_id", "left").limit(options.most).collect()
        spark.catalog.clearCache()
    return sorted((_hit(row.asDict()) for row in rows), key=lambda hit: hit.found.message_id or 0)


def _hit(row: dict[str, Any]) -> _Hit:
    found = Unsettled(row["handle"], row["message_id"], row["topic"], None, row["state"], None)
    return _Hit(row["ledger"], found)


def _ledger(
    stack: contextlib.ExitStack, reader: Reader, label: str, url: str, broker_id: str, options: ReconcileOptions
) -> DataFrame:
    if not is_postgresql(url):
        database = LocalDatabase.open(url)
        stack.callback(database.close)
        return database.promises(reader.spark, label, broker_id, options.older_than)
    snapshot: Snapshot = stack.enter_context(pinned(parse_database(url)))
    # Without a ledger named, the one in the broker's own database is meant.
    table = (table_named(snapshot, "mqpg_ledger") if options.ledgers else None) or table_named(snapshot, "mqpg.ledger")
    if table is None:
        raise LedgerError(f"{snapshot.database.name} has no table mqpg_ledger")
    before = snapshot.taken_at - options.older_than
    return reader.read(snapshot, queries.promises_source(label, table, broker_id, before))


def _settle(dsn: str, hits: list[_Hit], options: ReconcileOptions) -> list[Unsettled]:
    """Commit what is undecided, each looked at again: by its key at the broker, and in its ledger."""
    with mqpg.connect(dsn) as mq, contextlib.ExitStack() as stack:
        used = {hit.ledger for hit in hits}
        ledgers = {
            str(number): stack.enter_context(mqpg.Ledger(url))
            for number, url in enumerate(options.ledgers)
            if str(number) in used
        }
        return [_settle_one(mq, ledgers.get(hit.ledger), hit.found) for hit in hits]


def _settle_one(mq: mqpg.Client, ledger: mqpg.Ledger | None, found: Unsettled) -> Unsettled:
    (now,) = mq.half_states([found.handle])
    outcome = None
    if now.state == "undecided":
        payload = None
        if ledger is not None:
            # The verdict again: it makes sure that the local commit is on disk.
            if ledger.verdict(found.handle) is not Verdict.COMMIT:
                return found
            payload = ledger.final_payload(found.handle)
        outcome = mq.commit(found.handle, payload)
    elif now.state == "committed":
        outcome = mqpg.Outcome.ALREADY_COMMITTED
    return Unsettled(found.handle, found.message_id, found.topic, now.key, found.state, outcome)
