"""Reading for one audit: which databases, and in which order their snapshots are taken.

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

from psycopg.sql import SQL, Identifier
from pyspark.sql import SparkSession

from mqpg import migrate
from mqpg.dsn import resolve
from mqpg.errors import NotFound, UnknownProducerGroup, UnknownTopic

from . import queries
from .database import is_postgresql, parse_database
from .inputs import Inputs
from .jdbc import Reader
from .options import AuditOptions
from .snapshot import Snapshot, pinned, table_named
from .sqlalchemy_reader import LocalDatabase
from .user_databases import Elsewhere, pin

__all__ = ["gather", "probe"]

_GROUPS_OF = SQL("select distinct consumer_group from {}")
# Accounted apart, and told in the report: what groups were moved over, and what they were told to do again.
_LEFT_OUT = """
select j.topic, j.consumer_group, j.why, j.back, sum(j.to_offset - j.from_offset)::bigint as offsets
from mqpg.position_jump j group by 1, 2, 3, 4 order by 1, 2, 3, 4
"""


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
            before = pin(stack, self.result, "positions", self.database)
            self._identify(before)
            elsewhere = Elsewhere(
                self.spark,
                self.reader,
                self.result,
                stack,
                self.topics,
                self.options.clock_tolerance,
                before.system_identifier,
            )
            applied, ledgers = self._journals(before), self._ledgers(before)
            self.result.frames["cursors"] = self.reader.read(before, queries.cursor_source())
            elsewhere.read_consumers(applied)
            broker = pin(stack, self.result, "broker", self.database)
            self.result.taken_at = broker.taken_at
            self._read_broker(broker)
            elsewhere.read_ledgers(ledgers, self.producer_groups)
            self.result.rows |= self.reader.seal()
        return self.result

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

    def _read_broker(self, broker: Snapshot) -> None:
        ids = None
        if self.topics is not None:
            rows = broker.rows("select topic_id from mqpg.topic where name = any(%s)", self.topics)
            ids = [row["topic_id"] for row in rows]
        frames = self.result.frames
        for source in queries.broker_sources(ids):
            frames[source.name] = self.reader.read(broker, source)
        if self.topics is not None:  # dropped topics are read for their ids only
            frames["consume_queue"] = frames["consume_queue"].join(
                frames["topic"].select("topic_id"), "topic_id", "left_semi"
            )
        if self.options.groups:
            frames["subscription"] = frames["subscription"].where(
                frames["subscription"].consumer_group.isin(*self.options.groups)
            )
        self.result.dropped = [(row["first_id"], row["last_id"]) for row in broker.rows(queries.DROPPED_SEGMENTS)]
        gone = broker.rows(
            "select count(*) as n from mqpg.segment where family = 'tick' and body_dropped_at is not null"
        )
        self.result.complete = gone[0]["n"] == 0
        self.result.broker["left_out"] = broker.rows(_LEFT_OUT)


def _by_value(urls: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, url in sorted(urls.items()):
        grouped.setdefault(url, []).append(name)
    return grouped
