"""Reading a pinned snapshot with Spark, and proving that Spark read exactly that snapshot."""

from __future__ import annotations

import functools
import itertools
import logging
from dataclasses import dataclass, field
from typing import cast

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from mqpg.errors import DatabaseError, Error

from .queries import Query
from .schemas import conform
from .snapshot import Snapshot

__all__ = ["JdbcReader", "UnpinnedRead", "require_pinned"]

_log = logging.getLogger(__name__)

# A partition below this many rows costs more to open than to read.
_ROWS_WORTH_A_PARTITION = 25_000
_PROOF = "_snapshot"


class UnpinnedRead(Error):
    """Spark read rows that are not those of the exported snapshot, so no verdict is possible."""


@dataclass
class _Expected:
    frame: DataFrame
    snapshot: str
    rows: int


@dataclass
class JdbcReader:
    """Runs queries at their snapshots. `verify` then proves that Spark read what was pinned.

    Attributes:
        spark: The session.
        partitions: The most partitions in which one query is read.
    """

    spark: SparkSession
    partitions: int
    _expected: dict[str, _Expected] = field(default_factory=dict)

    def read(self, snapshot: Snapshot, query: Query) -> DataFrame:
        """Return a query's rows as a cached frame. Do not use the frame before `verify` succeeds.

        Args:
            snapshot: The snapshot at which it is read.
            query: What is read.

        Returns:
            The rows with the columns of the query's schema.

        Raises:
            DatabaseError: The exporter of the snapshot cannot run the query.
        """
        rows, cuts = _measure(snapshot, query, self.partitions)
        frame = self._load(snapshot, query, cuts).persist()
        self._expected[query.name] = _Expected(frame, snapshot.snapshot, rows)
        return conform(frame, query.schema)

    def empty(self, schema: StructType) -> DataFrame:
        """Return a frame without rows.

        Args:
            schema: Its columns.

        Returns:
            The frame.
        """
        # The optimiser knows a constant false and leaves out everything that is joined with it.
        return conform(self.spark.range(1).where("false").select(*(F.lit(None).alias(c.name) for c in schema)), schema)

    def union(self, frames: list[DataFrame], schema: StructType) -> DataFrame:
        """Return the rows of several frames.

        Args:
            frames: The frames. The list may be empty.
            schema: The columns of each of them.

        Returns:
            One frame with all rows.
        """
        return functools.reduce(DataFrame.unionByName, frames) if frames else self.empty(schema)

    def verify(self) -> dict[str, int]:
        """Fetch every query once, and require that its rows are those of the pinned snapshot.

        Returns:
            The number of rows by the name of the query.

        Raises:
            UnpinnedRead: A row carries another snapshot, or the number of rows differs from what
                the exporter counted.
        """
        proofs = [
            expected.frame.agg(
                F.lit(name).alias("name"),
                F.count(F.lit(1)).alias("n"),
                F.min(_PROOF).alias("low"),
                F.max(_PROOF).alias("high"),
            )
            for name, expected in self._expected.items()
        ]
        found = {row["name"]: row for row in functools.reduce(DataFrame.union, proofs).collect()} if proofs else {}
        for name, expected in self._expected.items():
            require_pinned(
                name, expected.snapshot, expected.rows, found[name]["n"], {found[name]["low"], found[name]["high"]}
            )
        return {name: expected.rows for name, expected in self._expected.items()}

    def _load(self, snapshot: Snapshot, query: Query, cuts: list[int]) -> DataFrame:
        key = f", {query.key} as _key" if query.key else ", 0 as _key"
        table = f"(select {query.columns}{key}, pg_current_snapshot()::text as {_PROOF} from {query.origin}) q"
        return self.spark.read.jdbc(
            url=snapshot.jdbc()["url"], table=table, predicates=_ranges(cuts), properties=snapshot.jdbc()
        )


def require_pinned(name: str, snapshot: str, rows: int, rows_read: int, snapshots_read: set[str | None]) -> None:
    """Require that the rows read are the exporter's in number and in snapshot.

    Args:
        name: The name of the query, for the error text.
        snapshot: The exporter's snapshot.
        rows: How many rows the exporter counted.
        rows_read: How many rows Spark read.
        snapshots_read: The snapshots that these rows carry. None means that there were no rows.

    Raises:
        UnpinnedRead: They differ.
    """
    others = snapshots_read - {None, snapshot}
    if others:
        raise UnpinnedRead(f"{name}: rows of snapshot {min(map(str, others))} instead of {snapshot}")
    if rows_read != rows:
        raise UnpinnedRead(f"{name}: {rows_read} rows read where the snapshot has {rows}")


def _ranges(cuts: list[int]) -> list[str]:
    """Return disjoint conditions on _key, one of which holds for every row."""
    if not cuts:
        return ["true"]
    inner = [f"_key >= {low} and _key < {high}" for low, high in itertools.pairwise(cuts)]
    return [f"_key < {cuts[0]}", *inner, f"_key >= {cuts[-1]}"]


def _measure(snapshot: Snapshot, query: Query, partitions: int) -> tuple[int, list[int]]:
    """Return the number of rows, and where to cut the key so that the parts are about equal."""
    try:
        rows = _scalar(snapshot, f"select count(*) from {query.origin}")
        parts = min(partitions, cast(int, rows) // _ROWS_WORTH_A_PARTITION + 1)
        if query.key is None or parts == 1:
            return cast(int, rows), []
        shares = ", ".join(str(part / parts) for part in range(1, parts))
        cuts = _scalar(
            snapshot,
            f"select percentile_disc(array[{shares}]) within group (order by {query.key}) from {query.origin}",
        )
    except psycopg.Error as error:
        raise DatabaseError(f"{query.name} of {snapshot.database.name}: {' '.join(str(error).split())}") from error
    return cast(int, rows), sorted(set(cast("list[int]", cuts)))


def _scalar(snapshot: Snapshot, query: str) -> object:
    # `queries` composes this text. Names of topics and groups appear in it only as literals that
    # psycopg has quoted.
    row = snapshot.connection.execute(query.encode()).fetchone()
    return next(iter(row.values())) if row else None
