"""The session of Spark with its temporary views, in which the engine derives and judges.

The views have the names of the temporary tables of the SQL engine. What fills them is read by the
same statements, which PostgreSQL runs at one snapshot of each database. What follows from them is
computed by the same texts, which Spark runs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mqpg.audit.kinds import KINDS
from mqpg.audit.sql.statements import DERIVED, READS, TABLES, Folder, statement
from mqpg.audit.sql.workspace import BEGIN, LOCK, SETTINGS, BrokerSnapshot, Workspace
from mqpg.connection.dsn import describe
from mqpg.connection.text_session import text_session

from .dialect import SINGLE, to_spark
from .read.chunks import Counted, frame_of_rows, literals_of_row
from .read.jdbc import PinnedReader
from .read.portable import Column, columns_of_table, spark_schema
from .read.stores import FrameStore

__all__ = ["SparkWorkspace", "open_spark_workspace"]

# The integer column by which a large result is cut into partitions.
_KEYS = {
    "body": "batch_id",
    "decision": "message_id",
    "check_back": "message_id",
    "delayed": "message_id",
    "tick": "tick_id",
    "queue_row": "tick_id",
    "queue_run": "tick_id",
    "cursor_version": "version",
    "claim": "version",
    "retry_noted": "version",
    "dedup": "message_id",
    "unmatched": "message_id",
    "applied": "message_id",
    "ledger_row": "message_id",
}
# The frames that are read often or are dear. Those with a row for each message have the column by
# which large ones are partitioned.
_KEPT: Mapping[str, str | None] = {
    "message": "message_id",
    "odd_message": None,
    "odd_decision": None,
    "spoiled": None,
    "entry": "message_id",
    "odd_entry": None,
    "queued": "message_id",
    "repeated": None,
    "missed": None,
    "mistimed": None,
    "setback": None,
    "effect": "message_id",
    "odd_effect": None,
    "reapplied": None,
    "unaccounted": None,
    "place": None,
    "hole": None,
    "absent": None,
    "unqueued": None,
    "jumped": None,
    "replay": None,
    "retry": None,
    "delivery": "message_id",
    "astray": None,
    "ledger_match": "message_id",
    "odd_match": None,
    "deleted": None,
    "transition": None,
    "cursor_fault": None,
    "clock_turn": None,
    "released": None,
    "failure": None,
    "step": None,
    "origin": None,
    "piece": None,
    "stored_message": "message_id",
    "change": None,
    "ending": "message_id",
    "unacked": None,
    "keeper": None,
    "answer": "message_id",
    "unanswered": None,
    "surplus": None,
    "due": None,
    "comeback": None,
    "broken": None,
}
_WORD = re.compile(r"\w+")
# What the statements in read/ refer to besides each other.
_GIVEN = ("judged", "open_message", "other_topic", "other_group")


@dataclass(frozen=True)
class SparkWorkspace(Workspace):
    """The session of one audit. The connection is the one at whose snapshot the broker is read."""

    spark: SparkSession = field(repr=False)
    reader: PinnedReader = field(repr=False)
    given: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict, repr=False)
    parts: dict[str, list[tuple[DataFrame, int]]] = field(default_factory=dict, repr=False)

    def rows(
        self, folder: Folder, name: str, parameters: Sequence[object] | Mapping[str, object] | None = None
    ) -> list[dict[str, Any]]:
        """Run one of the engine's queries."""
        text, small = statement(folder, name), self.reader.store.tuning.small
        if parameters:
            assert not isinstance(parameters, Mapping)
            text %= tuple(int(str(one)) for one in parameters)
        return [row.asDict() for row in self.spark.sql(to_spark(text, exact=small)).collect()]

    def insert(self, table: str, rows: Iterable[Sequence[object]]) -> int:
        """Add rows to a view of the name of a table. Returns how many there were."""
        if table in _GIVEN:
            rows = list(rows)
            self.given.setdefault(table, []).extend(map(tuple, rows))
        schema, counted = spark_schema(columns_of_table(statement("tables", table))), Counted(rows)
        frame = frame_of_rows(self.spark, counted, schema, self.reader.store)
        self.parts.setdefault(table, []).append((frame, counted.n))
        return counted.n

    def insert_copy(self, table: str, source: psycopg.Connection[Any], query: sql.Composable) -> int:
        """Add the rows of a query in another database, whose columns are those of the table."""
        columns = columns_of_table(statement("tables", table))
        named = f"({query.as_string(source)}) as q ({', '.join(c.name for c in columns)})"
        frame, n = self.reader.read(source, table, named, columns, _KEYS.get(table))
        self.parts.setdefault(table, []).append((frame, n))
        return n

    def read_broker(self, then: Callable[[], None] | None = None) -> BrokerSnapshot:
        """Read the broker at one snapshot. See Workspace."""
        del then
        return self.read_statements(READS)

    def read_statements(self, names: Iterable[str]) -> BrokerSnapshot:
        """Read the broker by some of the statements in read/, and make views of their rows."""
        taken_at = self.now()
        self._execute("the snapshot", BEGIN)
        self._execute("the locks", LOCK)
        snapshot = self._value("select pg_current_snapshot()::text")
        known, rows = self._known(), {}
        for name in names:
            text = statement("read", name)
            if name == "horizon":
                text = self._literals(known, text)
            query = f"({_with(known)} {text}) as q"
            frame, rows[name] = self.reader.read(self.connection, name, query, self._columns(query), _KEYS.get(name))
            self._show(name, frame, rows[name])
            known[name] = text
        self._execute("the end of the snapshot", "commit")
        return BrokerSnapshot(taken_at, snapshot, rows)

    def derive(self) -> None:
        """Make the views of what was read, and of the frames that follow."""
        for name in TABLES:
            if name != "anomaly" and name not in self.parts:
                self.insert(name, [])
        for name, parts in self.parts.items():
            frames, counts = zip(*parts, strict=True)
            self._show(name, functools.reduce(DataFrame.unionAll, frames), sum(counts))
        # A frame waits for those before it that its text names.
        needed: dict[str, set[str]] = {}
        for folder, name in DERIVED:
            needed[name] = needed.keys() & set(_WORD.findall(statement(folder, name)))
        folders = {name: folder for folder, name in DERIVED}
        order, under_way = TopologicalSorter(needed), dict[Future[None], str]()
        order.prepare()
        with self.reader.store.threads() as pool:
            while order.is_active():
                under_way |= {pool.submit(self._derive, folders[name], name): name for name in order.get_ready()}
                for made in wait(under_way, return_when=FIRST_COMPLETED).done:
                    made.result()
                    order.done(under_way.pop(made))

    def judge(self) -> dict[str, int]:
        """Look for the anomalies of each kind in the frames, and count them."""
        self._keep_anomalies([functools.partial(self._anomalies, statement("kinds", kind), kind) for kind in KINDS])
        # What the second definition finds besides.
        besides = functools.partial(self._anomalies, statement("conservation", "found"))
        self._keep_anomalies([functools.partial(self.spark.table, "anomaly"), besides])
        counts = {row["kind"]: row["anomalies"] for row in self.rows("totals", "counts")}
        return {kind: counts.get(kind, 0) for kind in KINDS}

    def _derive(self, folder: Folder, name: str) -> None:
        # There is a place for each cursor.
        rows = sum(n for _, n in self.parts["cursor_now"]) if name == "place" else None
        frame = self.spark.sql(to_spark(statement(folder, name)))
        if name in _KEPT:
            frame = self.reader.store.materialize(name, frame, key=_KEPT[name])
        self._show(name, frame, rows)

    def _anomalies(self, text: str, kind: str | None = None) -> DataFrame:
        """What a text finds, in the columns of the table of anomalies."""
        schema = spark_schema(columns_of_table(statement("tables", "anomaly")))
        columns = ", ".join(f"cast({c.name} as {c.dataType.simpleString()}) as {c.name}" for c in schema)
        named = f"select '{kind}' as kind, q.* from ({text}) as q" if kind else text
        return self.spark.sql(to_spark(f"select {columns} from ({named}) as a"))

    def _keep_anomalies(self, makers: Sequence[Callable[[], DataFrame]]) -> None:
        self.reader.store.materialize_all("anomaly", makers).createOrReplaceTempView("anomaly")

    def _show(self, name: str, frame: DataFrame, rows: int | None) -> None:
        """Make a view. Few rows are sent to every task, instead of shuffling what they are joined with."""
        if name in SINGLE:
            frame = literals_of_row(frame)
        elif rows is not None:
            frame = F.broadcast(frame) if self.reader.store.tuning.broadcasts(rows) else frame
            frame = self.reader.store.narrow(frame) if rows else frame
        frame.createOrReplaceTempView(name)

    def _known(self) -> dict[str, str]:
        """The tables that this session has filled, as queries."""
        found = {}
        for table in _GIVEN:
            columns = columns_of_table(statement("tables", table))
            rows = [dict(zip((c.name for c in columns), row, strict=True)) for row in self.given.get(table, [])]
            listed = sql.Literal(json.dumps(rows)).as_string(self.connection)
            kinds = ", ".join(f"{c.name} {c.kind}" for c in columns)
            found[table] = f"select * from json_to_recordset({listed}) as r ({kinds})"
        return found

    def _literals(self, known: Mapping[str, str], text: str) -> str:
        """Run a query that returns one row, and return one that needs no table for that row."""
        columns = self._columns(f"({_with(known)} {text}) as q")
        row = self.query(f"select {', '.join(f'q.{c.name}::text' for c in columns)} from ({_with(known)} {text}) as q")[
            0
        ]
        values = [f"{sql.Literal(row[c.name]).as_string(self.connection)}::{c.kind} as {c.name}" for c in columns]
        return f"select {', '.join(values)}"

    def _columns(self, query: str) -> list[Column]:
        with self._errors("the broker"):
            described = self.connection.execute(f"select * from {query} limit 0".encode()).description or []
            kinds = self.connection.execute(
                "select format_type(o.oid, null) as kind "
                "from unnest(%s::oid[]) with ordinality as o (oid, nth) order by nth",
                [[c.type_code for c in described]],
            ).fetchall()
        return [Column(c.name, row["kind"]) for c, row in zip(described, kinds, strict=True)]


def _with(known: Mapping[str, str]) -> str:
    return "with " + ", ".join(f"{name} as ({text})" for name, text in known.items())


@contextlib.contextmanager
def open_spark_workspace(spark: SparkSession, dsn: str, partitions: int, store: FrameStore) -> Iterator[SparkWorkspace]:
    """Open the session of an audit, until the block ends. It has the views of no other."""
    with text_session(dsn, "mqpg audit") as connection:
        connection.execute(SETTINGS.encode())
        yield SparkWorkspace(connection, dsn, describe(dsn), spark, PinnedReader(spark, partitions, store))
