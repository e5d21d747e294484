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

In a large audit a snapshot is released as soon as its database has been read, because it holds back
vacuum there. A small audit reads everything in one job of Spark, and then releases all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from mqpg.audit.options import AuditOptions, every_url, groups_by_url, joined_groups
from mqpg.audit.report import NO_JOURNAL, NO_LEDGER, NO_SUBSCRIPTION, NotJudged
from mqpg.embedded.locate import resolve
from mqpg.schema import migrate
from mqpg.values.errors import NotFound, UnknownProducerGroup, UnknownTopic

from . import queries
from .archive import Archive, open_archive
from .archived_broker import add_archived
from .database import is_postgresql, parse_database
from .horizon import HORIZON, Horizon
from .inputs import AuditInputs
from .jdbc import JdbcReader
from .size import count_rows, estimate_messages
from .snapshot import Snapshot, pinned_snapshot
from .sqlalchemy_reader import SqlalchemySnapshot
from .stores import FrameStore
from .user_databases import UserDatabaseReader, find_user_table, pin_and_record, released_when_read
from .user_queries import journal_groups_query

__all__ = ["connect_once", "read_inputs"]

_SUBSCRIBED = """
select s.consumer_group, bool_or(%s::text[] is null or t.name = any(%s::text[])) as in_scope
from mqpg.audit_subscription s join mqpg.audit_topic t on t.topic_id = s.topic_id group by 1
"""
# The producer groups with half messages, in the audited topics.
_PRODUCING = """
select distinct p.name from mqpg.audit_producer_group p join (
    select l.producer_group_id, l.topic_id from mqpg.audit_commit_log l where l.kind = 'h' group by 1, 2
    union select h.producer_group_id, h.topic_id from mqpg.audit_held h where h.kind = 'h'
) m on m.producer_group_id = p.producer_group_id join mqpg.audit_topic t on t.topic_id = m.topic_id
where %s::text[] is null or t.name = any(%s::text[]) order by 1
"""
# Offsets that groups skipped, and offsets that a seek back delivers again. The report shows them,
# and neither makes the verdict invalid.
_LEFT_OUT = """
select j.topic, j.consumer_group, j.why, j.back, sum(j.to_offset - j.from_offset)::bigint as offsets
from mqpg.audit_position_jump j group by 1, 2, 3, 4 order by 1, 2, 3, 4
"""


def connect_once(options: AuditOptions) -> int:
    """Connect to every database once, before a JVM is started, and ask about how many messages they have.

    A wrong URL is reported at once for that reason, and the JVM can be started to match.
    """
    migrate.check(resolve(options.dsn))
    messages = 0
    for url in {resolve(options.dsn), *every_url(options)}:
        if is_postgresql(url):
            with pinned_snapshot(parse_database(url)) as snapshot:
                messages = max(messages, estimate_messages(snapshot, archive=options.archive is not None))
        else:
            with contextlib.closing(SqlalchemySnapshot.open(url)) as database:
                messages = max(messages, count_rows(database))
    return messages


def read_inputs(spark: SparkSession, options: AuditOptions, store: FrameStore | None = None) -> AuditInputs:
    """Take all snapshots in order, read everything at them, and release them.

    The store None means a small audit.

    Raises:
        ConnectionFailed: A database does not answer.
        SchemaError: The broker's schema is missing, or this release cannot work with it.
        NotFound: The broker has no such topic, consumer group or producer group.
        LedgerError: A database has no journal or ledger.
        UnpinnedRead: Spark read rows that are not those of the pinned snapshots.
    """
    return _AuditReader(spark, options, store).run()


@dataclass
class _AuditReader:
    spark: SparkSession
    options: AuditOptions
    store: FrameStore | None
    inputs: AuditInputs = field(default_factory=AuditInputs)

    def __post_init__(self) -> None:
        self.reader = JdbcReader(self.spark, self.options.partitions, self.store)
        self.topics = list(self.options.topics) or None

    def run(self) -> AuditInputs:
        with contextlib.ExitStack() as stack:
            self.database = parse_database(resolve(self.options.dsn))
            with released_when_read(self.reader, stack) as reading:
                before = pin_and_record(reading, self.inputs, "positions", self.database)
                self._identify(before)
                journals, ledgers = self._journals(before), self._ledgers(before)
                self.inputs.frames["cursors"] = self.reader.read(before, queries.cursor_query())
            user_databases = UserDatabaseReader(
                self.spark,
                self.reader,
                self.inputs,
                stack,
                self.topics,
                self.options.clock_tolerance,
                before.system_identifier,
            )
            user_databases.read_consumers(journals)
            self._note_strange_journals()
            archive = None
            if self.options.archive is not None:
                # Before the snapshot. A segment that is dropped between the two is not read.
                archive = open_archive(self.spark, self.options.archive, self.database.conninfo)
                self.inputs.archive = archive.chosen.summary()
            with released_when_read(self.reader, stack) as reading:
                broker = pin_and_record(reading, self.inputs, "broker", self.database)
                self.inputs.taken_at = broker.taken_at
                # A ledger that is read much later has deleted rows that the broker still has.
                user_databases.pin_ledgers(ledgers)
                self._read_broker(broker, archive)
            user_databases.read_ledgers(self.producer_groups)
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
        scopes = {row["consumer_group"]: row["in_scope"] for row in broker.rows(_SUBSCRIBED, self.topics, self.topics)}
        subscribed = self.subscribed = set(scopes)
        wanted: dict[str, Any] = dict(self.options.applied)
        for group in [*wanted, *self.options.groups]:
            if group not in subscribed:
                raise NotFound(f"no subscription of a consumer group {group!r} in {broker.database.name}")
        if table := find_user_table(broker, "mqpg_applied"):
            rows = broker.rows(journal_groups_query(table, self.topics, self.inputs.broker["broker_id"]))
            own = {row["consumer_group"] for row in rows}
            self.inputs.journal_rows |= {row["consumer_group"]: row["journal_rows"] for row in rows}
            wanted |= {group: broker.database.conninfo for group in sorted(own & subscribed) if group not in wanted}
        if self.options.groups:
            wanted = {group: url for group, url in wanted.items() if group in self.options.groups}
        self.inputs.groups_with_journal = sorted(wanted)
        chosen = self.options.groups or sorted(group for group, in_scope in scopes.items() if in_scope)
        self.inputs.not_judged += [NotJudged(NO_JOURNAL, group) for group in chosen if group not in wanted]
        return groups_by_url(wanted)

    def _note_strange_journals(self) -> None:
        """Note the journals of groups without a subscription, unless groups were chosen."""
        if not self.options.groups:
            self.inputs.not_judged += [
                NotJudged(NO_SUBSCRIPTION, group, rows)
                for group, rows in sorted(self.inputs.journal_rows.items())
                if group not in self.subscribed
            ]

    def _ledgers(self, broker: Snapshot) -> dict[str, list[str]]:
        """Producer groups by URL. Groups that the broker's ledger checks are always included."""
        rows = broker.rows("select producer_group_id, name, checker from mqpg.audit_producer_group")
        self.producer_groups = {row["name"]: row["producer_group_id"] for row in rows}
        wanted: dict[str, Any] = dict(self.options.ledgers)
        for group in wanted:
            if group not in self.producer_groups:
                raise UnknownProducerGroup(f"no producer group {group!r} in {broker.database.name}")
        for row in rows:
            if row["checker"] == "ledger" and row["name"] not in wanted:
                wanted[row["name"]] = broker.database.conninfo
        producing = [row["name"] for row in broker.rows(_PRODUCING, self.topics, self.topics)]
        self.inputs.not_judged += [NotJudged(NO_LEDGER, name) for name in producing if name not in wanted]
        return joined_groups(wanted)

    def _read_broker(self, broker: Snapshot, archive: Archive | None) -> None:
        ids, all_ids = None, [row["topic_id"] for row in broker.rows("select topic_id from mqpg.audit_topic")]
        if self.topics is not None:
            rows = broker.rows("select topic_id from mqpg.audit_topic where name = any(%s)", self.topics)
            ids = [row["topic_id"] for row in rows]

        def adapt(text: str) -> str:
            return archive.adapt(text) if archive else text

        horizon = Horizon.of(broker.rows(adapt(HORIZON))[0], archive.ticks if archive else None)
        self.inputs.floor_id, self.inputs.newest_id = horizon.floor_id, horizon.newest_id
        frames = self.inputs.frames
        for query in queries.broker_queries(ids, horizon):
            if query.name != "remains":
                query = replace(query, origin=adapt(query.origin), columns=adapt(query.columns))
            frames[query.name] = self.reader.read(broker, query)
        if archive is not None:
            scope = None if ids is None else (ids, all_ids)
            self.inputs.rows |= add_archived(frames, archive, horizon, broker, scope, self.store)
            chosen = archive.chosen.ranges["commit_log"]
            self.inputs.archived_ranges = [(int(low) * 1024, int(high) * 1024 - 1) for low, high in chosen]
        if self.topics is not None:  # Dropped topics are read for the ids of their messages only.
            frames["consume_queue"] = frames["consume_queue"].join(
                frames["topic"].select("topic_id"), "topic_id", "left_semi"
            )
        if self.options.groups:
            for name in ("subscription", "reader", "jump"):
                frames[name] = frames[name].where(frames[name].consumer_group.isin(*self.options.groups))
        self._read_facts(broker, adapt)
        if archive is not None:
            known = broker.rows("select coalesce(max(subscription_id), 0) as newest from mqpg.audit_subscription")
            self.inputs.had_other_subscriptions |= archive.newest_subscription > known[0]["newest"]

    def _read_facts(self, broker: Snapshot, adapt: Callable[[str], str]) -> None:
        """Read what the driver itself has to know."""
        dropped = broker.rows(adapt(queries.DROPPED_SEGMENTS))
        self.inputs.dropped_ranges = [(row["first_id"], row["last_id"]) for row in dropped]
        gone = broker.rows(
            adapt(f"select count(*) as n from mqpg.audit_segment s where s.family = 'tick' and {queries.DROPPED}")
        )
        self.inputs.complete = gone[0]["n"] == 0
        segments = broker.rows(adapt(queries.LOG_SEGMENTS))
        self.inputs.segments = [(row["lower"], row["upper"]) for row in segments]
        self.inputs.had_other_subscriptions = broker.rows(queries.OTHER_SUBSCRIPTIONS)[0]["had_others"]
        slots = broker.rows(
            adapt(
                "select s.segment_no::int as slot from mqpg.audit_segment s "
                "where s.family = 'cursor' and s.body_dropped_at is not null order by 1"
            )
        )
        self.inputs.dropped_slots = [row["slot"] for row in slots]
        keep = broker.rows(
            "select now() - value::interval as purged_before from mqpg.audit_settings where name = 'position_jump_keep'"
        )
        self.inputs.jumps_purged_before = keep[0]["purged_before"]
        window = broker.rows(
            "select extract(epoch from value::interval)::float8 as seconds from mqpg.audit_settings "
            "where name = 'dedup_window'"
        )
        self.inputs.dedup_window = window[0]["seconds"]
        self.inputs.broker["left_out"] = broker.rows(_LEFT_OUT)
