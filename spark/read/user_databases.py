"""Reading the journals and ledgers of one audit, in the databases of consumers and producers.

Each database is read at one snapshot: a PostgreSQL database through JDBC, any other database
through SQLAlchemy.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession

from mqpg.dsn import describe, to_sqlalchemy
from mqpg.errors import LedgerError

from . import schemas, user_queries
from .database import Database, is_postgresql, parse_database
from .inputs import AuditInputs, SnapshotRecord, foreign_offsets
from .jdbc import JdbcReader
from .snapshot import Snapshot, pinned_snapshot
from .sqlalchemy_reader import SqlalchemySnapshot

__all__ = ["UserDatabaseReader", "pin_and_record"]

_OTHER_SERVER_TOLERANCE = 5.0
_INCARNATIONS = SQL("select consumer_group, broker, incarnation from {} where consumer_group = any(%s)")


def pin_and_record(stack: contextlib.ExitStack, inputs: AuditInputs, role: str, database: Database) -> Snapshot:
    """Pin a database at a snapshot, and record the snapshot for the report.

    Args:
        stack: The snapshot lives as long as this stack.
        inputs: Where it is recorded.
        role: What is read there, for the report.
        database: The database.

    Returns:
        The snapshot.

    Raises:
        ConnectionFailed: The database does not answer or refuses the snapshot.
        ConfigurationError: JDBC cannot reach the server.
    """
    snapshot = stack.enter_context(pinned_snapshot(database))
    inputs.snapshots.append(SnapshotRecord(role, database.name, snapshot.snapshot, snapshot.taken_at))
    return snapshot


@dataclass
class UserDatabaseReader:
    """Opens the databases of consumers and producers and reads their journals and ledgers.

    Attributes:
        spark: The session.
        reader: Reads the PostgreSQL databases.
        inputs: Where the frames go.
        stack: The snapshots live as long as this stack.
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

    def read_consumers(self, journals: dict[str, list[str]]) -> None:
        """Read the journals, offsets and deferred messages of consumer groups.

        Args:
            journals: The consumer groups by the URL of their database.

        Raises:
            ConnectionFailed: A database does not answer.
            LedgerError: A database has no table mqpg_applied, or it cannot be read.
        """
        found: dict[str, list[DataFrame]] = {"applied": [], "offsets": [], "deferred": []}
        for url, groups in journals.items():
            read = self._postgresql_consumer if is_postgresql(url) else self._sqlalchemy_consumer
            for name, frame in read(url, groups).items():
                found[name].append(frame)
        for name, schema in (
            ("applied", schemas.APPLIED),
            ("offsets", schemas.OFFSETS),
            ("deferred", schemas.DEFERRED),
        ):
            self.inputs.frames[name] = self.reader.union(found[name], schema)

    def _postgresql_consumer(self, url: str, groups: list[str]) -> dict[str, DataFrame]:
        snapshot = pin_and_record(self.stack, self.inputs, "consumer", parse_database(url))
        self._record_tolerance(
            self.inputs.group_tolerance, groups, same_clock=snapshot.system_identifier == self.broker_system
        )
        label, table = ",".join(groups), snapshot.find_table("mqpg_applied")
        if table is None:
            raise _no_journal(groups, snapshot.database.name)
        found = {"applied": self.reader.read(snapshot, user_queries.applied_query(label, table, groups, self.topics))}
        if offsets := snapshot.find_table("mqpg_offsets"):
            self._record_foreign_offsets(snapshot.rows(_INCARNATIONS.format(Identifier(*offsets)), groups), groups)
            query = user_queries.offsets_query(label, offsets, groups, self.topics, self.inputs.broker["broker_id"])
            found["offsets"] = self.reader.read(snapshot, query)
        if inbox := snapshot.find_table("mqpg_inbox"):
            query = user_queries.deferred_query(label, inbox, groups, self.topics)
            found["deferred"] = self.reader.read(snapshot, query)
        return found

    def _sqlalchemy_consumer(self, url: str, groups: list[str]) -> dict[str, DataFrame]:
        database = self._open("consumer", url)
        self._record_tolerance(self.inputs.group_tolerance, groups, same_clock=False)
        if not database.has_table("mqpg_applied"):
            raise _no_journal(groups, describe(to_sqlalchemy(url)))
        found = {"applied": database.applied(self.spark, groups, self.topics)}
        self.inputs.rows[f"applied {','.join(groups)}"] = found["applied"].count()
        if database.has_table("mqpg_offsets"):
            rows = database.offsets(groups, self.topics)
            self._record_foreign_offsets(rows, groups)
            ours = [row for row in rows if row["broker"] == self.inputs.broker["broker_id"]]
            names = schemas.OFFSETS.fieldNames()
            found["offsets"] = self.spark.createDataFrame(
                [tuple(row[name] for name in names) for row in ours], schemas.OFFSETS
            )
        if database.has_table("mqpg_inbox"):
            found["deferred"] = database.deferred(self.spark, groups, self.topics)
        return found

    def read_ledgers(self, ledgers: dict[str, list[str]], producer_groups: dict[str, int]) -> None:
        """Read the ledgers of producer groups.

        Args:
            ledgers: The producer groups by the URL of their ledger's database.
            producer_groups: The ids of producer groups by name.

        Raises:
            ConnectionFailed: A database does not answer.
            LedgerError: A database has no ledger, or it cannot be read.
        """
        rows, groups = [], []
        broker_id = self.inputs.broker["broker_id"]
        for url, names in ledgers.items():
            label, in_broker = ",".join(names), False
            if is_postgresql(url):
                snapshot = pin_and_record(self.stack, self.inputs, "ledger", parse_database(url))
                table = snapshot.find_ledger()
                if table is None:
                    raise _no_ledger(label, snapshot.database.name)
                in_broker = table[0] == "mqpg"
                self._record_tolerance(
                    self.inputs.ledger_tolerance, [label], same_clock=snapshot.system_identifier == self.broker_system
                )
                rows.append(self.reader.read(snapshot, user_queries.ledger_query(label, table, broker_id)))
            else:
                database = self._open("ledger", url)
                if not database.has_table("mqpg_ledger"):
                    raise _no_ledger(label, describe(to_sqlalchemy(url)))
                self._record_tolerance(self.inputs.ledger_tolerance, [label], same_clock=False)
                rows.append(database.ledger(self.spark, label, broker_id))
            groups += [(producer_groups[name], name, label, in_broker) for name in names]
        self.inputs.frames["ledger"] = self.reader.union(rows, schemas.LEDGER)
        self.inputs.frames["ledger_groups"] = (
            self.spark.createDataFrame(groups, schemas.LEDGER_GROUPS)
            if groups
            else self.reader.empty(schemas.LEDGER_GROUPS)
        )

    def _record_foreign_offsets(self, rows: list[dict[str, Any]], groups: list[str]) -> None:
        broker = self.inputs.broker
        self.inputs.doubts += foreign_offsets(rows, groups, broker["broker_id"], broker["incarnation"])

    def _open(self, role: str, url: str) -> SqlalchemySnapshot:
        database = SqlalchemySnapshot.open(url)
        self.stack.callback(database.close)
        name = describe(to_sqlalchemy(url))
        self.inputs.snapshots.append(SnapshotRecord(role, name, "one transaction", database.taken_at))
        return database

    def _record_tolerance(self, tolerances: dict[str, float], names: list[str], *, same_clock: bool) -> None:
        given = self.clock_tolerance
        default = 0.0 if same_clock else _OTHER_SERVER_TOLERANCE
        tolerances |= dict.fromkeys(names, default if given is None else given)


def _no_journal(groups: list[str], database: str) -> LedgerError:
    return LedgerError(
        f"{database} has no table mqpg_applied (consumer group {', '.join(groups)}): "
        "the audit needs consumers that keep a journal"
    )


def _no_ledger(groups: str, database: str) -> LedgerError:
    return LedgerError(f"{database} has no table mqpg_ledger (producer group {groups})")
