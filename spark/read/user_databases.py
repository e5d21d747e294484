"""Reading the journals and ledgers of one audit, in the databases of consumers and producers.

Each database is read at one snapshot: a PostgreSQL database through JDBC, any other database
through SQLAlchemy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from psycopg.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqpg.audit.report import SnapshotRecord
from mqpg.connection.dsn import describe, to_sqlalchemy
from mqpg.values.errors import LedgerError

from . import schemas, user_queries
from .chunks import frame_of_few, frame_of_rows
from .database import Database, is_postgresql, parse_database
from .inputs import AuditInputs, foreign_offsets
from .jdbc import JdbcReader
from .snapshot import Snapshot, pinned_snapshot
from .sqlalchemy_reader import SqlalchemySnapshot

__all__ = ["UserDatabaseReader", "find_user_table", "pin_and_record", "released_when_read"]

_OTHER_SERVER_TOLERANCE = 5.0
_INCARNATIONS = SQL("select consumer_group, broker, incarnation from {} where consumer_group = any(%s)")


def pin_and_record(stack: contextlib.ExitStack, inputs: AuditInputs, role: str, database: Database) -> Snapshot:
    """Pin a database at a snapshot for as long as `stack` lives, and record the snapshot for the report."""
    snapshot = stack.enter_context(pinned_snapshot(database))
    inputs.snapshots.append(SnapshotRecord(role, database.name, snapshot.snapshot, snapshot.taken_at))
    return snapshot


@contextlib.contextmanager
def released_when_read(reader: JdbcReader, until_verified: contextlib.ExitStack) -> Iterator[contextlib.ExitStack]:
    """Release snapshots at the end of the block, or with `until_verified` if the reader has not read yet."""
    with contextlib.ExitStack() as stack:
        yield stack
        if not reader.eager:
            until_verified.push(stack.pop_all())


@dataclass
class _PinnedLedger:
    groups: list[str]
    stack: contextlib.ExitStack
    database: Snapshot | SqlalchemySnapshot
    ledger: tuple[str, str] | None
    outbox: tuple[str, str] | None


@dataclass
class UserDatabaseReader:
    """Opens the databases of consumers and producers and reads their journals and ledgers.

    Attributes:
        stack: The snapshots of a small audit live as long as this stack. Those of a large one are
            released as soon as they are read.
        topics: Only these topics. None means all.
        clock_tolerance: As in AuditOptions.
        broker_system: The broker's server cluster. A database there has the broker's clock.
    """

    spark: SparkSession
    reader: JdbcReader
    inputs: AuditInputs
    stack: contextlib.ExitStack
    topics: list[str] | None
    clock_tolerance: float | None
    broker_system: int
    _ledgers: list[_PinnedLedger] = field(default_factory=list)

    def read_consumers(self, journals: dict[str, list[str]]) -> None:
        """Read the journals, offsets and deferred messages of consumer groups, by the URL of their database.

        Raises LedgerError if a database has no table mqpg_applied.
        """
        found: dict[str, list[DataFrame]] = {"applied": [], "offsets": [], "deferred": []}
        for url, groups in journals.items():
            read = self._postgresql_consumer if is_postgresql(url) else self._sqlalchemy_consumer
            with released_when_read(self.reader, self.stack) as stack:
                for name, frame in read(stack, url, groups).items():
                    found[name].append(frame)
        for name, schema in (
            ("applied", schemas.APPLIED),
            ("offsets", schemas.OFFSETS),
            ("deferred", schemas.DEFERRED),
        ):
            self.inputs.frames[name] = self.reader.union(found[name], schema)
        # A queue that changed its owner has positions in the databases of both. The furthest one counts.
        furthest = self.inputs.frames["offsets"].groupBy("consumer_group", "topic", "queue_id")
        self.inputs.frames["offsets"] = furthest.agg(F.max("next_offset").alias("next_offset"))

    def _postgresql_consumer(self, stack: contextlib.ExitStack, url: str, groups: list[str]) -> dict[str, DataFrame]:
        snapshot = pin_and_record(stack, self.inputs, "consumer", parse_database(url))
        self._record_tolerance(
            self.inputs.group_tolerance, groups, same_clock=snapshot.system_identifier == self.broker_system
        )
        label, table = ",".join(groups), find_user_table(snapshot, "mqpg_applied")
        if table is None:
            raise _no_journal(groups, snapshot.database.name)
        broker_id = self.inputs.broker["broker_id"]
        query = user_queries.applied_query(label, table, groups, self.topics, broker_id)
        found = {"applied": self.reader.read(snapshot, query)}
        self._record_other_groups(snapshot.rows(user_queries.journal_groups_query(table, self.topics, broker_id)))
        if offsets := snapshot.find_table("mqpg_offsets"):
            self._record_foreign_offsets(snapshot.rows(_INCARNATIONS.format(Identifier(*offsets)), groups), groups)
            query = user_queries.offsets_query(label, offsets, groups, self.topics, broker_id)
            found["offsets"] = self.reader.read(snapshot, query)
        if inbox := find_user_table(snapshot, "mqpg_inbox"):
            query = user_queries.deferred_query(label, inbox, groups, self.topics, broker_id)
            found["deferred"] = self.reader.read(snapshot, query)
        return found

    def _sqlalchemy_consumer(self, stack: contextlib.ExitStack, url: str, groups: list[str]) -> dict[str, DataFrame]:
        database = self._open(stack, "consumer", url)
        self._record_tolerance(self.inputs.group_tolerance, groups, same_clock=False)
        if not database.has_table("mqpg_applied"):
            raise _no_journal(groups, describe(to_sqlalchemy(url)))
        broker_id = self.inputs.broker["broker_id"]
        found = {"applied": database.applied(self.spark, groups, self.topics, broker_id)}
        self._record_other_groups(database.journal_groups(self.topics, broker_id))
        what = f"applied {','.join(groups)}"
        self.inputs.rows[what] = self.inputs.rows.get(what, 0) + found["applied"].count()
        if database.has_table("mqpg_offsets"):
            rows = database.offsets(groups, self.topics)
            self._record_foreign_offsets(rows, groups)
            ours = [row for row in rows if row["broker"] == broker_id]
            names = schemas.OFFSETS.fieldNames()
            found["offsets"] = frame_of_rows(
                self.spark, (tuple(row[name] for name in names) for row in ours), schemas.OFFSETS
            )
        if database.has_table("mqpg_inbox"):
            found["deferred"] = database.deferred(self.spark, groups, self.topics, broker_id)
        return found

    def pin_ledgers(self, ledgers: dict[str, list[str]]) -> None:
        """Take the snapshots of ledgers, by the URL of their database, for `read_ledgers`.

        Raises LedgerError if a database has no ledger.
        """
        for url, names in ledgers.items():
            stack = self.stack.enter_context(contextlib.ExitStack())
            self._ledgers.append(self._pin_ledger(stack, url, names))

    def _pin_ledger(self, stack: contextlib.ExitStack, url: str, names: list[str]) -> _PinnedLedger:
        label = ",".join(names)
        if not is_postgresql(url):
            database = self._open(stack, "ledger", url)
            ledger, outbox = (
                ("", table) if database.has_table(table) else None for table in ("mqpg_ledger", "mqpg_outbox")
            )
            self._record_tolerance(self.inputs.ledger_tolerance, [label], same_clock=False)
            pinned = _PinnedLedger(names, stack, database, ledger, outbox)
        else:
            snapshot = pin_and_record(stack, self.inputs, "ledger", parse_database(url))
            ledger, outbox = snapshot.find_ledger(), snapshot.find_table("mqpg_outbox")
            if outbox is not None and ledger is not None and ledger[0] == "mqpg":
                ledger = None  # A broker's own ledger is there in every broker.
            same_clock = snapshot.system_identifier == self.broker_system
            self._record_tolerance(self.inputs.ledger_tolerance, [label], same_clock=same_clock)
            pinned = _PinnedLedger(names, stack, snapshot, ledger, outbox)
        if ledger is None and outbox is None:
            raise _no_ledger(label, describe(to_sqlalchemy(url)))
        return pinned

    def read_ledgers(self, producer_groups: dict[str, int]) -> None:
        """Read the ledgers that `pin_ledgers` has pinned. `producer_groups` are ids by name."""
        rows, outboxes = [], []
        groups: list[tuple[int, str, str, bool]] = []
        outbox_groups: list[tuple[int, str, str, bool]] = []
        broker_id = self.inputs.broker["broker_id"]
        for pinned in self._ledgers:
            label = ",".join(pinned.groups)
            if isinstance(pinned.database, SqlalchemySnapshot):
                if pinned.ledger is not None:
                    rows.append(pinned.database.ledger(self.spark, label, broker_id))
                if pinned.outbox is not None:
                    outboxes.append(pinned.database.outbox(self.spark, label, broker_id))
            else:
                if pinned.ledger is not None:
                    query = user_queries.ledger_query(label, pinned.ledger, broker_id)
                    rows.append(self.reader.read(pinned.database, query))
                if pinned.outbox is not None:
                    query = user_queries.outbox_query(label, pinned.outbox, broker_id)
                    outboxes.append(self.reader.read(pinned.database, query))
            if self.reader.eager:
                pinned.stack.close()
            in_broker = pinned.ledger is not None and pinned.ledger[0] == "mqpg"
            served = groups if pinned.ledger is not None else outbox_groups
            for name in pinned.groups:
                if (row := (producer_groups[name], name, label, in_broker)) not in served:
                    served.append(row)
        self.inputs.frames["outbox"] = self.reader.union(outboxes, schemas.OUTBOX)
        self.inputs.frames["outbox_groups"] = self._groups(outbox_groups)
        self.inputs.frames["ledger_groups"] = self._groups(groups)
        self.inputs.frames["ledger"] = self.reader.union(rows, schemas.LEDGER)

    def _groups(self, groups: list[tuple[int, str, str, bool]]) -> DataFrame:
        if not groups:
            return self.reader.empty(schemas.LEDGER_GROUPS)
        return frame_of_few(self.spark, groups, schemas.LEDGER_GROUPS)

    def _record_other_groups(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            known = self.inputs.journal_rows.get(row["consumer_group"], 0)
            self.inputs.journal_rows[row["consumer_group"]] = known + row["journal_rows"]

    def _record_foreign_offsets(self, rows: list[dict[str, Any]], groups: list[str]) -> None:
        broker = self.inputs.broker
        # A group may read another broker's topics only, or those of this one for the first time.
        rows = [
            row
            for row in rows
            if row["broker"] == broker["broker_id"] or self.inputs.journal_rows.get(row["consumer_group"])
        ]
        self.inputs.doubts += foreign_offsets(rows, groups, broker["broker_id"], broker["incarnation"])

    def _open(self, stack: contextlib.ExitStack, role: str, url: str) -> SqlalchemySnapshot:
        database = SqlalchemySnapshot.open(url)
        database.store = self.reader.store
        stack.callback(database.close)
        name = describe(to_sqlalchemy(url))
        self.inputs.snapshots.append(SnapshotRecord(role, name, "one transaction", database.taken_at))
        return database

    def _record_tolerance(self, tolerances: dict[str, float], names: list[str], *, same_clock: bool) -> None:
        given = self.clock_tolerance
        default = 0.0 if same_clock else _OTHER_SERVER_TOLERANCE
        for name in names:
            tolerances[name] = max(tolerances.get(name, 0.0), default if given is None else given)


def find_user_table(snapshot: Snapshot, name: str) -> user_queries.UserTable | None:
    """Find a table of mqpg in a user's database. None: there is none."""
    table = snapshot.find_table(name)
    return None if table is None else user_queries.UserTable(table, snapshot.find_columns(table))


def _no_journal(groups: list[str], database: str) -> LedgerError:
    return LedgerError(
        f"{database} has no table mqpg_applied (consumer group {', '.join(groups)}): "
        "the audit needs consumers that keep a journal"
    )


def _no_ledger(groups: str, database: str) -> LedgerError:
    return LedgerError(f"{database} has no table mqpg_ledger or mqpg_outbox (producer group {groups})")
