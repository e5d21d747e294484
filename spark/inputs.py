"""All that one audit reads: which databases, in which order their snapshots are taken, and the frames.

The order of the snapshots is what makes them comparable, for the databases share no clock:

1. positions: the broker's cursors. What a cursor is beyond was applied before it moved, so a journal read
   later must have it. (A group that keeps its offset beside its journal needs no cursor: one snapshot has both.)
2. consumers: journals and offsets. An effect in them was committed after the message it comes from, so a
   broker read later must have that commit.
3. the broker's log. A commit in it was decided after the local transaction, so a ledger read later must have
   its row.
4. ledgers. Their rows are younger than the broker's snapshot, so a row without a half message is judged only
   if it was written before that snapshot was taken, or if nothing is running any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession

from mqpg import migrate
from mqpg.dsn import describe, resolve, to_sqlalchemy
from mqpg.errors import LedgerError, NotFound, UnknownProducerGroup, UnknownTopic
from mqpg.spark import schemas, sources
from mqpg.spark.databases import Database, is_postgresql, parse_database
from mqpg.spark.local import LocalDatabase
from mqpg.spark.readers import Reader
from mqpg.spark.snapshot import Snapshot, pinned

__all__ = [
    "DROPPED_SEGMENTS",
    "AuditOptions",
    "Inputs",
    "Read",
    "foreign_offsets",
    "gather",
    "probe",
    "table_named",
]

_FOREIGN_CLOCK = 5.0


@dataclass(frozen=True)
class AuditOptions:
    """What to audit. ledgers: producer group -> URL; applied: consumer group -> URL; empty names mean all.

    drained: nothing runs any more, so nothing may be left open. slack: how long after its check is due a half
    may stay undecided. clock_tolerance: seconds by which the clocks of two servers may differ (default: none on
    one server cluster, 5 else). ledger_keep: ledger rows of decisions older than this may have been deleted.
    """

    dsn: str | None = None
    ledgers: Mapping[str, str] = field(default_factory=dict)
    applied: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    drained: bool = False
    slack: timedelta = timedelta(minutes=5)
    clock_tolerance: float | None = None
    ledger_keep: timedelta = timedelta(days=1)
    partitions: int = 2
    examples: int = 32


@dataclass(frozen=True)
class Read:
    """One snapshot that was read: for the report."""

    role: str
    database: str
    snapshot: str
    taken_at: datetime


@dataclass
class Inputs:
    """Frames in the shapes of `schemas`, cached and sealed, and what is needed to interpret them."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    journalled: list[str] = field(default_factory=list)
    group_tolerance: dict[str, float] = field(default_factory=dict)
    ledger_tolerance: dict[str, float] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    taken_at: datetime = datetime.min
    dropped: list[tuple[int, int]] = field(default_factory=list)
    complete: bool = True


def probe(options: AuditOptions) -> None:
    """Reaches every database once, so that a wrong URL is told before a JVM is started for it.

    Raises ConnectionFailed, SchemaError, ConfigurationError.
    """
    migrate.check(resolve(options.dsn))
    for url in {resolve(options.dsn), *options.ledgers.values(), *options.applied.values()}:
        if is_postgresql(url):
            with pinned(parse_database(url)):
                pass
        else:
            LocalDatabase.open(url).close()


def gather(spark: SparkSession, options: AuditOptions) -> Inputs:
    """Takes all snapshots in order, reads everything at them, and lets them go.

    Raises ConnectionFailed, SchemaError, NotFound for an unknown topic or group, LedgerError for a database without
    the table, UnpinnedRead.
    """
    return _Gathering(spark, options).run()


@dataclass
class _Gathering:
    spark: SparkSession
    options: AuditOptions
    result: Inputs = field(default_factory=Inputs)

    def __post_init__(self) -> None:
        self.reader = Reader(self.spark, self.options.partitions)
        self.topics = list(self.options.topics) or None

    def run(self) -> Inputs:
        with contextlib.ExitStack() as stack:
            self.database = parse_database(resolve(self.options.dsn))
            before = self._pin(stack, "positions", self.database)
            self._identify(before)
            applied, ledgers = self._journals(before), self._ledgers(before)
            self.result.frames["cursors"] = self.reader.read(before, sources.cursor_source())
            self._read_consumers(stack, applied)
            broker = self._pin(stack, "broker", self.database)
            self.result.taken_at = broker.taken_at
            self._read_broker(broker)
            self._read_ledgers(stack, ledgers)
            self.result.rows |= self.reader.seal()
        return self.result

    def _pin(self, stack: contextlib.ExitStack, role: str, database: Database) -> Snapshot:
        snapshot = stack.enter_context(pinned(database))
        self.result.reads.append(Read(role, database.name, snapshot.snapshot, snapshot.taken_at))
        return snapshot

    def _identify(self, broker: Snapshot) -> None:
        migrate.check(broker.database.conninfo)
        row = broker.rows("select broker_id, incarnation, system_identifier from mqpg.broker")[0]
        self.result.broker = {
            "database": broker.database.name,
            "broker_id": row["broker_id"],
            "incarnation": row["incarnation"],
            "system_identifier": str(row["system_identifier"]),
            "server_version": broker.server_version,
        }
        self.system = broker.system_identifier
        if row["system_identifier"] != broker.system_identifier:
            self.result.doubts.append(
                "the broker was restored into another cluster: its transaction ids mean nothing here"
            )
        known = {row["name"] for row in broker.rows("select name from mqpg.topic")}
        for topic in self.options.topics:
            if topic not in known:
                raise UnknownTopic(f"no topic {topic!r} in {broker.database.name}")

    def _journals(self, broker: Snapshot) -> dict[str, list[str]]:
        """URL -> consumer groups; without being asked also the journal in the broker's own database."""
        known = {row["consumer_group"] for row in broker.rows("select distinct consumer_group from mqpg.subscription")}
        wanted = dict(self.options.applied)
        for group in [*wanted, *self.options.groups]:
            if group not in known:
                raise NotFound(f"no subscription of a consumer group {group!r} in {broker.database.name}")
        if table := table_named(broker, "mqpg_applied"):
            rows = broker.rows(_GROUPS_OF.format(Identifier(*table)))
            own = {row["consumer_group"] for row in rows}
            wanted |= {group: broker.database.conninfo for group in sorted(own & known) if group not in wanted}
        if self.options.groups:
            wanted = {group: url for group, url in wanted.items() if group in self.options.groups}
        self.result.journalled = sorted(wanted)
        return _by_value(wanted)

    def _ledgers(self, broker: Snapshot) -> dict[str, list[str]]:
        """URL -> producer groups; without being asked also those whose checker is the broker's own ledger."""
        rows = broker.rows("select producer_group_id, name, checker from mqpg.producer_group")
        self.producer_groups = {row["name"]: row["producer_group_id"] for row in rows}
        wanted = dict(self.options.ledgers)
        for group in wanted:
            if group not in self.producer_groups:
                raise UnknownProducerGroup(f"no producer group {group!r} in {broker.database.name}")
        for row in rows:
            if row["checker"] == "ledger" and row["name"] not in wanted:
                wanted[row["name"]] = broker.database.conninfo
        return _by_value(wanted)

    def _read_consumers(self, stack: contextlib.ExitStack, journals: dict[str, list[str]]) -> None:
        found: dict[str, list[DataFrame]] = {"applied": [], "offsets": [], "deferred": []}
        for url, groups in journals.items():
            read = self._consumer if is_postgresql(url) else self._local_consumer
            for name, frame in read(stack, url, groups).items():
                found[name].append(frame)
        for name, schema in (
            ("applied", schemas.APPLIED),
            ("offsets", schemas.OFFSETS),
            ("deferred", schemas.DEFERRED),
        ):
            self.result.frames[name] = self.reader.union(found[name], schema)

    def _consumer(self, stack: contextlib.ExitStack, url: str, groups: list[str]) -> dict[str, DataFrame]:
        snapshot = self._pin(stack, "consumer", parse_database(url))
        self._tolerate(self.result.group_tolerance, groups, snapshot.system_identifier == self.system)
        label, table = ",".join(groups), table_named(snapshot, "mqpg_applied")
        if table is None:
            raise _no_journal(groups, snapshot.database.name)
        found = {"applied": self.reader.read(snapshot, sources.applied_source(label, table, groups, self.topics))}
        if kept := table_named(snapshot, "mqpg_offsets"):
            self._compare(snapshot.rows(_LIVES.format(Identifier(*kept)), groups), groups)
            source = sources.offsets_source(label, kept, groups, self.topics, self.result.broker["broker_id"])
            found["offsets"] = self.reader.read(snapshot, source)
        if inbox := table_named(snapshot, "mqpg_inbox"):
            source = sources.deferred_source(label, inbox, groups, self.topics)
            found["deferred"] = self.reader.read(snapshot, source)
        return found

    def _local_consumer(self, stack: contextlib.ExitStack, url: str, groups: list[str]) -> dict[str, DataFrame]:
        database = self._open(stack, "consumer", url)
        self._tolerate(self.result.group_tolerance, groups, False)
        if not database.has_table("mqpg_applied"):
            raise _no_journal(groups, describe(to_sqlalchemy(url)))
        found = {"applied": database.applied(self.spark, groups, self.topics)}
        self.result.rows[f"applied {','.join(groups)}"] = found["applied"].count()
        if database.has_table("mqpg_offsets"):
            rows = database.offsets(groups, self.topics)
            self._compare(rows, groups)
            ours = [row for row in rows if row["broker"] == self.result.broker["broker_id"]]
            names = schemas.OFFSETS.fieldNames()
            found["offsets"] = self.spark.createDataFrame(
                [tuple(row[name] for name in names) for row in ours], schemas.OFFSETS
            )
        if database.has_table("mqpg_inbox"):
            found["deferred"] = database.deferred(self.spark, groups, self.topics)
        return found

    def _compare(self, rows: list[dict[str, Any]], groups: list[str]) -> None:
        broker = self.result.broker
        self.result.doubts += foreign_offsets(rows, groups, broker["broker_id"], broker["incarnation"])

    def _read_broker(self, broker: Snapshot) -> None:
        ids = None
        if self.topics is not None:
            rows = broker.rows("select topic_id from mqpg.topic where name = any(%s)", self.topics)
            ids = [row["topic_id"] for row in rows]
        frames = self.result.frames
        for source in sources.broker_sources(ids):
            frames[source.name] = self.reader.read(broker, source)
        if self.topics is not None:  # dropped topics are read for their ids only
            frames["consume_queue"] = frames["consume_queue"].join(
                frames["topic"].select("topic_id"), "topic_id", "left_semi"
            )
        if self.options.groups:
            frames["subscription"] = frames["subscription"].where(
                frames["subscription"].consumer_group.isin(*self.options.groups)
            )
        self.result.dropped = [(row["first_id"], row["last_id"]) for row in broker.rows(DROPPED_SEGMENTS)]
        gone = broker.rows(
            "select count(*) as n from mqpg.segment where family = 'tick' and body_dropped_at is not null"
        )
        self.result.complete = gone[0]["n"] == 0

    def _read_ledgers(self, stack: contextlib.ExitStack, ledgers: dict[str, list[str]]) -> None:
        rows, groups = [], []
        broker_id = self.result.broker["broker_id"]
        for url, names in ledgers.items():
            label, own = ",".join(names), False
            if is_postgresql(url):
                snapshot = self._pin(stack, "ledger", parse_database(url))
                table = table_named(snapshot, "mqpg_ledger") or table_named(snapshot, "mqpg.ledger")
                if table is None:
                    raise LedgerError(f"{snapshot.database.name} has no table mqpg_ledger (producer group {label})")
                own = table[0] == "mqpg"
                self._tolerate(self.result.ledger_tolerance, [label], snapshot.system_identifier == self.system)
                rows.append(self.reader.read(snapshot, sources.ledger_source(label, table, broker_id)))
            else:
                database = self._open(stack, "ledger", url)
                if not database.has_table("mqpg_ledger"):
                    raise LedgerError(
                        f"{describe(to_sqlalchemy(url))} has no table mqpg_ledger (producer group {label})"
                    )
                self._tolerate(self.result.ledger_tolerance, [label], False)
                rows.append(database.ledger(self.spark, label, broker_id))
            groups += [(self.producer_groups[name], name, label, own) for name in names]
        self.result.frames["ledger"] = self.reader.union(rows, schemas.LEDGER)
        self.result.frames["ledger_groups"] = (
            self.spark.createDataFrame(groups, schemas.LEDGER_GROUPS)
            if groups
            else self.reader.empty(schemas.LEDGER_GROUPS)
        )

    def _open(self, stack: contextlib.ExitStack, role: str, url: str) -> LocalDatabase:
        database = LocalDatabase.open(url)
        stack.callback(database.close)
        self.result.reads.append(Read(role, describe(to_sqlalchemy(url)), "one transaction", database.taken_at))
        return database

    def _tolerate(self, tolerances: dict[str, float], names: list[str], same_clock: bool) -> None:
        given = self.options.clock_tolerance
        tolerances |= dict.fromkeys(names, (0.0 if same_clock else _FOREIGN_CLOCK) if given is None else given)


def foreign_offsets(rows: list[dict[str, Any]], groups: list[str], broker_id: str, incarnation: int) -> list[str]:
    """Why offsets (consumer_group, broker, incarnation) are of another broker, or of a later life of this one."""
    doubts = []
    for group in groups:
        brokers = {row["broker"] for row in rows if row["consumer_group"] == group}
        if brokers and broker_id not in brokers:
            doubts.append(f"the offsets of group {group} belong to another broker, {min(brokers)}")
        lives = [row["incarnation"] for row in rows if (row["consumer_group"], row["broker"]) == (group, broker_id)]
        if lives and max(lives) > incarnation:
            doubts.append(
                f"the offsets of group {group} come from incarnation {max(lives)} of the broker, "
                f"which is at {incarnation}"
            )
    return doubts


DROPPED_SEGMENTS = """
select lower_bound::bigint * 1024 as first_id, upper_bound::bigint * 1024 - 1 as last_id
from mqpg.segment where family = 'log' and body_dropped_at is not null
"""
_LIVES = SQL("select consumer_group, broker, incarnation from {} where consumer_group = any(%s)")
_GROUPS_OF = SQL("select distinct consumer_group from {}")


def _by_value(urls: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, url in sorted(urls.items()):
        grouped.setdefault(url, []).append(name)
    return grouped


def table_named(snapshot: Snapshot, name: str) -> tuple[str, str] | None:
    """Schema and name of a table as the connection's search_path finds it."""
    rows = snapshot.rows(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where c.oid = to_regclass(%s)",
        name,
    )
    return (rows[0]["nspname"], rows[0]["relname"]) if rows else None


def _no_journal(groups: list[str], where: str) -> LedgerError:
    return LedgerError(
        f"{where} has no table mqpg_applied (consumer group {', '.join(groups)}): its consumers must keep a journal"
    )
