"""Reconciliation by set difference (protocol T6) with Spark: whole ledgers against whole brokers.

Each database is read at one snapshot, the ledger first and the broker after it. Rows younger than
`older_than` are left to their producers. So a ledger row whose half message has no commit decision
is a lost commit: its local transaction committed before the broker was read, and its producer had
enough time. Each hit is looked up again before it is committed, so any number of these jobs and of
Reconcilers may run at the same time.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import mqpg
from mqpg.audit.sql.sources import open_source
from mqpg.audit.sql.sqlalchemy_source import SqlalchemySource
from mqpg.audit.sql.user_tables import OF_BROKER
from mqpg.embedded.locate import resolve
from mqpg.values.errors import LedgerError
from mqpg.values.messages import Unsettled, Verdict

from ..dialect import to_spark
from ..read.chunks import frame_of_rows
from ..read.jdbc_jar import find_jdbc_jar
from ..read.portable import Column, spark_schema
from ..read.session import open_session, own_session
from ..read.stores import open_store
from ..read.tuning import Tuning
from ..workspace import SparkWorkspace, open_spark_workspace

__all__ = ["ReconcileOptions", "connect_once", "missing_commits", "reconcile", "reconcile_in"]

_COMMITS = [Column("ledger", "text"), Column("handle", "text"), Column("message_id", "bigint"), Column("nonce", "text")]
_READ = ("horizon", "topic", "body", "decision")
# Where retention has dropped the bodies, a decision to roll back proves it still.
_MISSING = """
with half as (
    select b.first_id + i.i as message_id, b.handle_hashes[i.i + 1] as handle_hash, b.topic_id
    from body as b
    cross join lateral generate_series(0, b.n - 1) as i (i)
    where b.kind = 'h'
),

found as (
    select
        l.ledger, l.handle, l.message_id, t.topic,
        case
            when h.message_id is not null and o.op is null then 'undecided'
            when (h.message_id is not null or l.message_id <@ g.dropped_ids) and o.op = 'b' then 'rolled_back'
            when h.message_id is null and not l.message_id <@ g.dropped_ids then 'absent'
        end as state
    from local_commit as l
    left join half as h
        on h.message_id = l.message_id and h.handle_hash = encode(sha256(decode(l.nonce, 'hex')), 'hex')
    left join decision as o on o.message_id = l.message_id and o.stage = 0
    left join topic as t on t.topic_id = h.topic_id
    cross join horizon as g
)

select f.ledger, f.handle, f.message_id, f.topic, f.state
from found as f
where f.state is not null
"""


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
    """Compare once, as `reconcile_in` does, in a session of its own. See `open_session`."""
    with open_session(threads, jar=find_jdbc_jar()) as spark:
        return reconcile_in(spark, options)


def reconcile_in(spark: SparkSession, options: ReconcileOptions) -> list[Unsettled]:
    """Compare in a given session, and again while more was lost than is committed at a time.

    Returns what was found, with the outcome of each commit. If a database does not answer
    (ConnectionFailed), what was committed before stays committed.
    """
    found: list[Unsettled] = []
    for dsn in options.dsns or (resolve(None),):
        if options.settle:
            found += _settle(spark, dsn, options)
        else:
            found += [hit.found for hit in _compare(spark, dsn, options)]
    return found


def missing_commits(spark: SparkSession) -> DataFrame:
    """Find ledger rows whose half message has no commit decision.

    The session has the views local_commit (ledger, handle, message_id, nonce), and body, decision, horizon
    and topic as an audit reads them. Returns rows (ledger, handle, message_id, topic, state), with the state
    undecided, rolled_back or absent.
    """
    return spark.sql(to_spark(_MISSING))


def _settle(spark: SparkSession, dsn: str, options: ReconcileOptions) -> list[Unsettled]:
    """Commit what was lost at one broker, until nothing more can be committed."""
    found: list[Unsettled] = []
    known: set[str] = set()
    while True:
        hits = _commit_hits(dsn, _compare(spark, dsn, options), options)
        new = [hit for hit in hits if hit.handle not in known]  # What cannot be committed is found again.
        found += new
        known |= {hit.handle for hit in hits}
        # A pass that is full and decides nothing new would find the same again.
        if len(hits) < options.max_messages or all(hit.outcome is None for hit in new):
            return found


@dataclass(frozen=True)
class _Hit:
    ledger: str
    found: Unsettled


def _compare(spark: SparkSession, dsn: str, options: ReconcileOptions) -> list[_Hit]:
    with mqpg.connect(dsn) as mq:
        broker_id = mq.info().broker_id
    with (
        own_session(spark) as own,
        open_store(own, Tuning()) as store,
        open_spark_workspace(own, dsn, options.partitions, store) as work,
    ):
        ledgers = [
            _read_ledger(work, str(number), url, broker_id, options)
            for number, url in enumerate(options.ledgers or (dsn,))
        ]
        functools.reduce(DataFrame.unionAll, ledgers).createOrReplaceTempView("local_commit")
        work.insert("judged", [(True, -1, 0)])
        work.read_statements(_READ)
        # What can be committed comes first, or what cannot would fill every pass.
        order = ("case state when 'undecided' then 0 else 1 end", "message_id")
        rows = missing_commits(own).orderBy(*map(expr, order)).limit(options.max_messages).collect()
    return sorted((_hit(row.asDict()) for row in rows), key=lambda hit: hit.found.message_id or 0)


def _hit(row: dict[str, Any]) -> _Hit:
    found = Unsettled(row["handle"], row["message_id"], row["topic"], None, row["state"], None)
    return _Hit(row["ledger"], found)


def _read_ledger(work: SparkWorkspace, label: str, url: str, broker_id: str, options: ReconcileOptions) -> DataFrame:
    with open_source(url) as source:
        before = source.taken_at - options.older_than
        if isinstance(source, SqlalchemySource):
            return frame_of_rows(work.spark, source.local_commits(label, broker_id, before), spark_schema(_COMMITS))
        mine = source.find_table("mqpg_ledger") if options.ledgers else None
        # If no ledger is named, the one in the broker's own database is read.
        table = mine or source.find_table("mqpg.audit_ledger")
        if table is None:
            raise LedgerError(f"{source.name} has no table mqpg_ledger")
        rows = sql.SQL(
            "(select {} as ledger, handle::text as handle, split_part(handle, '.', 3)::bigint as message_id, "
            "split_part(handle, '.', 4) as nonce from {} where " + OF_BROKER.format("handle", "{}")
            + " and entry = 'local' and {} <= {} offset 0) as q"
        ).format(
            sql.Literal(label), table, sql.Literal(broker_id),
            sql.SQL("created_at" if mine else "at"), sql.Literal(before),
        )  # fmt: skip
        text = rows.as_string(source.connection)
        return work.reader.read(source.connection, "the ledger", text, _COMMITS, "message_id")[0]


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
