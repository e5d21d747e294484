"""Reading a pinned snapshot with Spark, and proving that Spark read exactly that snapshot."""

from __future__ import annotations

import functools
import itertools
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import psycopg
from psycopg.sql import SQL, Composable, Identifier, Literal
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from mqpg.values.errors import DatabaseError, Error

from .queries import Query
from .schemas import conform
from .snapshot import Snapshot
from .stores import FrameStore

__all__ = ["JdbcReader", "UnpinnedRead", "require_pinned"]

_log = logging.getLogger(__name__)

# A partition below this many rows costs more to open than to read.
_ROWS_WORTH_A_PARTITION = 25_000
# The rows of a table are not spread evenly over its keys. More parts than tasks even that out.
_PARTS_PER_TASK = 4
_PROOF = "_snapshot"
_COUNT = SQL("select count(*) as rows from {}")
_PAGES = SQL(
    "select pg_relation_size(c.oid) / current_setting('block_size')::int as pages from (select) x "
    "left join pg_class c on c.oid = to_regclass({}) and c.relkind = 'r' "
    "and not exists (select from pg_inherits i where i.inhparent = c.oid)"
)
_ENDS = SQL(
    "select (select {key} as k from {origin} order by k limit 1) as low, "
    "(select {key} as k from {origin} order by k desc limit 1) as high"
)


class UnpinnedRead(Error):
    """Spark read rows that are not those of the exported snapshot, so no verdict is possible."""


@dataclass(frozen=True)
class _Cut:
    key: str
    ranges: list[str]


@dataclass
class _Expected:
    name: str
    frame: DataFrame
    snapshot: str
    rows: int


@dataclass
class JdbcReader:
    """Runs queries at their snapshots, and proves that Spark read what was pinned.

    Attributes:
        partitions: The most partitions in which one query of a small audit is read. It is also the
            number of connections at a time.
        store: Where the rows of a large audit are kept. None means a small audit.
    """

    spark: SparkSession
    partitions: int
    store: FrameStore | None = None
    _expected: list[_Expected] = field(default_factory=list)
    _verified: Counter[str] = field(default_factory=Counter)

    @property
    def eager(self) -> bool:
        """Whether `read` fetches and proves at once, so that a snapshot can be released early."""
        return self.store is not None and not self.store.tuning.small

    def read(self, snapshot: Snapshot, query: Query) -> DataFrame:
        """The rows of a query at a snapshot. Do not use the frame of a small audit before `verify` succeeds.

        Raises UnpinnedRead if a row carries another snapshot than that of the exporter.
        """
        if self.eager:
            return self._read_once(snapshot, query)
        rows = cast(int, _scalar(snapshot, query, _COUNT.format(SQL(query.origin)))["rows"])
        cut = _cut(snapshot, query, min(self.partitions, rows // _ROWS_WORTH_A_PARTITION + 1))
        frame = self._load(snapshot, query, cut).persist()
        self._expected.append(_Expected(query.name, frame, snapshot.snapshot, rows))
        return conform(frame, query.schema)

    def _read_once(self, snapshot: Snapshot, query: Query) -> DataFrame:
        """Fetch the rows in one pass over the table and keep them.

        Every row carries the snapshot at which it was read. A partition without rows proves
        nothing, but its session could not have begun without adopting the snapshot.
        """
        assert self.store is not None
        seen = Observation()
        frame = self._load(snapshot, query, _cut(snapshot, query, _PARTS_PER_TASK * self.partitions))
        counted = frame.observe(
            seen, F.count(F.lit(1)).alias("rows"), F.min(_PROOF).alias("low"), F.max(_PROOF).alias("high")
        )
        kept = self.store.materialize(f"read {query.name}", conform(counted, query.schema))
        found = seen.get
        require_pinned(query.name, snapshot.snapshot, found["rows"], found["rows"], {found["low"], found["high"]})
        self._verified[query.name] += found["rows"]
        return kept

    def empty(self, schema: StructType) -> DataFrame:
        """A frame without rows."""
        # The optimiser knows a constant false and leaves out everything that is joined with it.
        return conform(self.spark.range(1).where("false").select(*(F.lit(None).alias(c.name) for c in schema)), schema)

    def union(self, frames: list[DataFrame], schema: StructType) -> DataFrame:
        """The rows of several frames, or of none, with one schema."""
        return functools.reduce(DataFrame.unionByName, frames) if frames else self.empty(schema)

    def verify(self) -> dict[str, int]:
        """Fetch every query once, and require that its rows are those of the pinned snapshot.

        A query is read in several databases if a group has several. Returns the number of rows by the name of
        the query. Raises UnpinnedRead if a row carries another snapshot, or the number of rows differs from
        what the exporter counted.
        """
        proofs = [
            expected.frame.agg(
                F.lit(place).alias("place"),
                F.count(F.lit(1)).alias("n"),
                F.min(_PROOF).alias("low"),
                F.max(_PROOF).alias("high"),
            )
            for place, expected in enumerate(self._expected)
        ]
        found = {row["place"]: row for row in functools.reduce(DataFrame.union, proofs).collect()} if proofs else {}
        verified = self._verified.copy()
        for place, expected in enumerate(self._expected):
            seen = {found[place]["low"], found[place]["high"]}
            require_pinned(expected.name, expected.snapshot, expected.rows, found[place]["n"], seen)
            verified[expected.name] += expected.rows
        return dict(verified)

    def _load(self, snapshot: Snapshot, query: Query, cut: _Cut) -> DataFrame:
        proof = f"pg_current_snapshot()::text as {_PROOF}"
        table = f"(select {query.columns}, {cut.key} as _key, {proof} from {query.origin}) q"
        options = snapshot.jdbc() | {"fetchsize": str(query.fetch_rows)}
        return self.spark.read.jdbc(url=options["url"], table=table, predicates=cut.ranges, properties=options)


def require_pinned(name: str, snapshot: str, rows: int, rows_read: int, snapshots_read: set[str | None]) -> None:
    """Raise UnpinnedRead unless the rows read are the exporter's in number and in snapshot.

    `snapshots_read` are the snapshots that these rows carry. None among them means that there were no rows.
    """
    others = snapshots_read - {None, snapshot}
    if others:
        raise UnpinnedRead(f"{name}: rows of snapshot {min(map(str, others))} instead of {snapshot}")
    if rows_read != rows:
        raise UnpinnedRead(f"{name}: {rows_read} rows read where the snapshot has {rows}")


def _cut(snapshot: Snapshot, query: Query, parts: int) -> _Cut:
    """Cut a query into parts of equal width, without a pass over its rows."""
    whole = _Cut("0", ["true"])
    if parts <= 1:
        return whole
    if query.table is not None:
        pages = _scalar(snapshot, query, _PAGES.format(Literal(Identifier(*query.table).as_string(None))))["pages"]
        # A view has no pages, and those of a table with partitions do not follow one another.
        return whole if pages is None else _Cut("x.ctid", _ranges(_marks(0, pages, parts), "'({},0)'::tid"))
    if query.key is None:
        return whole
    ends = _scalar(snapshot, query, _ENDS.format(key=SQL(query.key), origin=SQL(query.origin)))
    return whole if ends["low"] is None else _Cut(query.key, _ranges(_marks(ends["low"], ends["high"], parts), "{}"))


def _marks(low: int, high: int, parts: int) -> list[int]:
    return sorted({low + (high - low) * part // parts for part in range(1, parts)} - {low})


def _ranges(marks: list[int], literal: str) -> list[str]:
    """Return disjoint conditions on _key, one of which holds for every row."""
    if not marks:
        return ["true"]
    cuts = [literal.format(mark) for mark in marks]
    inner = [f"_key >= {low} and _key < {high}" for low, high in itertools.pairwise(cuts)]
    return [f"_key < {cuts[0]}", *inner, f"_key >= {cuts[-1]}"]


def _scalar(snapshot: Snapshot, query: Query, text: Composable) -> dict[str, Any]:
    # `queries` composes the origins. Names of topics and groups appear in them only as literals
    # that psycopg has quoted.
    try:
        row = snapshot.connection.execute(text.as_bytes(None)).fetchone()
    except psycopg.Error as error:
        raise DatabaseError(f"{query.name} of {snapshot.database.name}: {' '.join(str(error).split())}") from error
    assert row is not None
    return row
