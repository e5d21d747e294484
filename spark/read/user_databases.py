"""The journals and ledgers of one audit, in whatever databases they are, each read at one snapshot."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession

from mqpg.dsn import describe, to_sqlalchemy
from mqpg.errors import LedgerError

from . import queries, schemas
from .database import Database, is_postgresql, parse_database
from .inputs import Inputs, Read, foreign_offsets
from .jdbc import Reader
from .snapshot import Snapshot, pinned, table_named
from .sqlalchemy_reader import LocalDatabase

__all__ = ["Elsewhere", "pin"]

_FOREIGN_CLOCK = 5.0
_LIVES = SQL("select consumer_group, broker, incarnation from {} where consumer_group = any(%s)")


def pin(stack: contextlib.ExitStack, result: Inputs, role: str, database: Database) -> Snapshot:
    """A snapshot of a database, noted for the report."""
    snapshot = stack.enter_context(pinned(database))
    result.reads.append(Read(role, database.name, snapshot.snapshot, snapshot.taken_at))
    return snapshot


@dataclass
class Elsewhere:
    """Opens databases, for as long as the stack lives, and puts what it reads into the result.

    topics: only these; clock_tolerance: as in AuditOptions; system: the broker's cluster.
    """

    spark: SparkSession
    reader: Reader
    result: Inputs
    stack: contextlib.ExitStack
    topics: list[str] | None
    clock_tolerance: float | None
    system: int

    def read_consumers(self, journals: dict[str, list[str]]) -> None:
        """journals: URL -> consumer groups."""
        found: dict[str, list[DataFrame]] = {"applied": [], "offsets": [], "deferred": []}
        for url, groups in journals.items():
            read = self._consumer if is_postgresql(url) else self._local_consumer
            for name, frame in read(url, groups).items():
                found[name].append(frame)
        for name, schema in (
            ("applied", schemas.APPLIED),
            ("offsets", schemas.OFFSETS),
            ("deferred", schemas.DEFERRED),
        ):
            self.result.frames[name] = self.reader.union(found[name], schema)

    def _consumer(self, url: str, groups: list[str]) -> dict[str, DataFrame]:
        snapshot = pin(self.stack, self.result, "consumer", parse_database(url))
        self._tolerate(self.result.group_tolerance, groups, snapshot.system_identifier == self.system)
        label, table = ",".join(groups), table_named(snapshot, "mqpg_applied")
        if table is None:
            raise _no_journal(groups, snapshot.database.name)
        found = {"applied": self.reader.read(snapshot, queries.applied_source(label, table, groups, self.topics))}
        if kept := table_named(snapshot, "mqpg_offsets"):
            self._compare(snapshot.rows(_LIVES.format(Identifier(*kept)), groups), groups)
            source = queries.offsets_source(label, kept, groups, self.topics, self.result.broker["broker_id"])
            found["offsets"] = self.reader.read(snapshot, source)
        if inbox := table_named(snapshot, "mqpg_inbox"):
            source = queries.deferred_source(label, inbox, groups, self.topics)
            found["deferred"] = self.reader.read(snapshot, source)
        return found

    def _local_consumer(self, url: str, groups: list[str]) -> dict[str, DataFrame]:
        database = self._open("consumer", url)
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

    def read_ledgers(self, ledgers: dict[str, list[str]], producer_groups: dict[str, int]) -> None:
        """ledgers: URL -> producer groups; producer_groups: name -> id."""
        rows, groups = [], []
        broker_id = self.result.broker["broker_id"]
        for url, names in ledgers.items():
            label, own = ",".join(names), False
            if is_postgresql(url):
                snapshot = pin(self.stack, self.result, "ledger", parse_database(url))
                table = table_named(snapshot, "mqpg_ledger") or table_named(snapshot, "mqpg.ledger")
                if table is None:
                    raise LedgerError(f"{snapshot.database.name} has no table mqpg_ledger (producer group {label})")
                own = table[0] == "mqpg"
                self._tolerate(self.result.ledger_tolerance, [label], snapshot.system_identifier == self.system)
                rows.append(self.reader.read(snapshot, queries.ledger_source(label, table, broker_id)))
            else:
                database = self._open("ledger", url)
                if not database.has_table("mqpg_ledger"):
                    raise LedgerError(
                        f"{describe(to_sqlalchemy(url))} has no table mqpg_ledger (producer group {label})"
                    )
                self._tolerate(self.result.ledger_tolerance, [label], False)
                rows.append(database.ledger(self.spark, label, broker_id))
            groups += [(producer_groups[name], name, label, own) for name in names]
        self.result.frames["ledger"] = self.reader.union(rows, schemas.LEDGER)
        self.result.frames["ledger_groups"] = (
            self.spark.createDataFrame(groups, schemas.LEDGER_GROUPS)
            if groups
            else self.reader.empty(schemas.LEDGER_GROUPS)
        )

    def _compare(self, rows: list[dict[str, Any]], groups: list[str]) -> None:
        broker = self.result.broker
        self.result.doubts += foreign_offsets(rows, groups, broker["broker_id"], broker["incarnation"])

    def _open(self, role: str, url: str) -> LocalDatabase:
        database = LocalDatabase.open(url)
        self.stack.callback(database.close)
        self.result.reads.append(Read(role, describe(to_sqlalchemy(url)), "one transaction", database.taken_at))
        return database

    def _tolerate(self, tolerances: dict[str, float], names: list[str], same_clock: bool) -> None:
        given = self.clock_tolerance
        tolerances |= dict.fromkeys(names, (0.0 if same_clock else _FOREIGN_CLOCK) if given is None else given)


def _no_journal(groups: list[str], where: str) -> LedgerError:
    return LedgerError(
        f"{where} has no table mqpg_applied (consumer group {', '.join(groups)}): its consumers must keep a journal"
    )
