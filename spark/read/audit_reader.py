"""Reading everything that one audit needs: which databases, and in which order.

The databases have no common clock. The order of their snapshots makes them comparable:

1. Positions: the broker's cursors. A message is applied before the cursor moves beyond it, so a
   journal that is read later must contain it. (A group that stores its offset with its journal
   needs no cursor, because one snapshot has both.)
2. Consumers: journals and offsets. The message of an effect was committed before the effect, so a
   broker that is read later must contain that commit.
3. The broker's log. A half message is committed after its local transaction, so a ledger that is
   read later must contain its row.
4. Ledgers. Their rows may be younger than the broker's snapshot. So a row without a half message is
   an anomaly only if it was written before that snapshot, or if nothing is running any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from psycopg.sql import SQL, Identifier
from pyspark.sql import SparkSession

from mqpg import migrate
from mqpg.dsn import resolve
from mqpg.errors import NotFound, UnknownProducerGroup, UnknownTopic

from . import queries
from .database import is_postgresql, parse_database
from .inputs import AuditInputs
from .jdbc import JdbcReader
from .options import AuditOptions
from .snapshot import Snapshot, pinned_snapshot
from .sqlalchemy_reader import SqlalchemySnapshot
from .user_databases import UserDatabaseReader, pin_and_record

__all__ = ["connect_once", "read_inputs"]

_GROUPS_OF = SQL("select distinct consumer_group from {}")
# Offsets that groups skipped, and offsets that a seek back delivers again. The report shows them,
# and neither makes the verdict invalid.
_LEFT_OUT = """
select j.topic, j.consumer_group, j.why, j.back, sum(j.to_offset - j.from_offset)::bigint as offsets
from mqpg.audit_position_jump j group by 1, 2, 3, 4 order by 1, 2, 3, 4
"""


def connect_once(options: AuditOptions) -> None:
    """Connect to every database once, before a JVM is started.

    A wrong URL is reported at once for that reason.

    Args:
        options: Which databases.

    Raises:
        ConnectionFailed: A database does not answer.
        SchemaError: The broker's schema is missing, or this release cannot work with it.
        ConfigurationError: A URL is wrong, or JDBC cannot reach the server.
    """
    migrate.check(resolve(options.dsn))
    for url in {resolve(options.dsn), *options.ledgers.values(), *options.applied.values()}:
        if is_postgresql(url):
            with pinned_snapshot(parse_database(url)):
                pass
        else:
            SqlalchemySnapshot.open(url).close()


def read_inputs(spark: SparkSession, options: AuditOptions) -> AuditInputs:
    """Take all snapshots in order, read everything at them, and release them.

    Args:
        spark: The session.
        options: What is read.

    Returns:
        What was read.

    Raises:
        ConnectionFailed: A database does not answer.
        SchemaError: The broker's schema is missing, or this release cannot work with it.
        NotFound: The broker has no such topic, consumer group or producer group.
        LedgerError: A database has no journal or ledger.
        UnpinnedRead: Spark read rows that are not those of the pinned snapshots.
    """
    return _AuditReader(spark, options).run()


@dataclass
class _AuditReader:
    spark: SparkSession
    options: AuditOptions
    inputs: AuditInputs = field(default_factory=AuditInputs)

    def __post_init__(self) -> None:
        self.reader = JdbcReader(self.spark, self.options.partitions)
        self.topics = list(self.options.topics) or None

    def run(self) -> AuditInputs:
        with contextlib.ExitStack() as stack:
            self.database = parse_database(resolve(self.options.dsn))
            before = pin_and_record(stack, self.inputs, "positions", self.database)
            self._identify(before)
            user_databases = UserDatabaseReader(
                self.spark,
                self.reader,
                self.inputs,
                stack,
                self.topics,
                self.options.clock_tolerance,
                before.system_identifier,
            )
            journals, ledgers = self._journals(before), self._ledgers(before)
            self.inputs.frames["cursors"] = self.reader.read(before, queries.cursor_query())
            user_databases.read_consumers(journals)
            broker = pin_and_record(stack, self.inputs, "broker", self.database)
            self.inputs.taken_at = broker.taken_at
            self._read_broker(broker)
            user_databases.read_ledgers(ledgers, self.producer_groups)
            self.inputs.rows |= self.reader.verify()
        return self.inputs

    def _identify(self, broker: Snapshot) -> None:
        migrate.check(broker.database.conninfo)
        row = broker.rows("select broker_id, incarnation, system_identifier from mqpg.audit_broker")[0]
        self.inputs.broker = {
            "database": broker.database.name,
            "broker_id": row["broker_id"],
            "incarnation": row["incarnation"],
            "system_identifier": str(row["system_identifier"]),
            "server_version": broker.server_version,
        }
        if row["system_identifier"] != broker.system_identifier:
            self.inputs.doubts.append(
                "the broker was restored into another cluster: its transaction ids mean nothing here"
            )
        topics = {row["name"] for row in broker.rows("select name from mqpg.audit_topic")}
        for topic in self.options.topics:
            if topic not in topics:
                raise UnknownTopic(f"no topic {topic!r} in {broker.database.name}")

    def _journals(self, broker: Snapshot) -> dict[str, list[str]]:
        """Consumer groups by URL. A journal in the broker's own database is always included."""
        subscribed = {
            row["consumer_group"] for row in broker.rows("select distinct consumer_group from mqpg.audit_subscription")
        }
        wanted = dict(self.options.applied)
        for group in [*wanted, *self.options.groups]:
            if group not in subscribed:
                raise NotFound(f"no subscription of a consumer group {group!r} in {broker.database.name}")
        if table := broker.find_table("mqpg_applied"):
            rows = broker.rows(_GROUPS_OF.format(Identifier(*table)))
            own = {row["consumer_group"] for row in rows}
            wanted |= {group: broker.database.conninfo for group in sorted(own & subscribed) if group not in wanted}
        if self.options.groups:
            wanted = {group: url for group, url in wanted.items() if group in self.options.groups}
        self.inputs.groups_with_journal = sorted(wanted)
        return _by_value(wanted)

    def _ledgers(self, broker: Snapshot) -> dict[str, list[str]]:
        """Producer groups by URL. Groups that the broker's ledger checks are always included."""
        rows = broker.rows("select producer_group_id, name, checker from mqpg.audit_producer_group")
        self.producer_groups = {row["name"]: row["producer_group_id"] for row in rows}
        wanted = dict(self.options.ledgers)
        for group in wanted:
            if group not in self.producer_groups:
                raise UnknownProducerGroup(f"no producer group {group!r} in {broker.database.name}")
        for row in rows:
            if row["checker"] == "ledger" and row["name"] not in wanted:
                wanted[row["name"]] = broker.database.conninfo
        return _by_value(wanted)

    def _read_broker(self, broker: Snapshot) -> None:
        ids = None
        if self.topics is not None:
            rows = broker.rows("select topic_id from mqpg.audit_topic where name = any(%s)", self.topics)
            ids = [row["topic_id"] for row in rows]
        frames = self.inputs.frames
        for query in queries.broker_queries(ids):
            frames[query.name] = self.reader.read(broker, query)
        if self.topics is not None:  # Dropped topics are read for the ids of their messages only.
            frames["consume_queue"] = frames["consume_queue"].join(
                frames["topic"].select("topic_id"), "topic_id", "left_semi"
            )
        if self.options.groups:
            frames["subscription"] = frames["subscription"].where(
                frames["subscription"].consumer_group.isin(*self.options.groups)
            )
        self.inputs.dropped_ranges = [
            (row["first_id"], row["last_id"]) for row in broker.rows(queries.DROPPED_SEGMENTS)
        ]
        gone = broker.rows(
            "select count(*) as n from mqpg.audit_segment "
            "where family = 'tick' and (body_dropped_at is not null or left_out <> '{}')"
        )
        self.inputs.complete = gone[0]["n"] == 0
        self.inputs.broker["left_out"] = broker.rows(_LEFT_OUT)


def _by_value(urls: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, url in sorted(urls.items()):
        grouped.setdefault(url, []).append(name)
    return grouped
