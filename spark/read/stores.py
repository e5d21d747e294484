"""Places where frames are kept between the stages of an audit.

A frame is computed once and kept, which cuts its lineage: it has a plan of one node afterwards. A
cached frame would keep its lineage, and planning a union of twenty searches over it took longer
than the audit itself.
"""

from __future__ import annotations

import contextlib
import functools
import re
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from .session import is_local, name_calls, named_calls, session_settings
from .tuning import Tuning

__all__ = ["FrameStore", "open_store"]


@dataclass(frozen=True)
class FrameStore(ABC):
    """Keeps frames."""

    tuning: Tuning
    spark: SparkSession = field(repr=False)

    @contextlib.contextmanager
    def threads(self) -> Iterator[Executor]:
        """Threads that plan and compute at once, until the block ends: a small audit has three, any other one."""
        pool = ThreadPoolExecutor(3 if self.tuning.small else 1, initializer=name_calls, initargs=(self.spark,))
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)

    def narrow(self, frame: DataFrame) -> DataFrame:
        """Reduce a frame to a single partition if the audit is small."""
        return frame.coalesce(1) if self.tuning.small else frame

    def materialize(self, name: str, frame: DataFrame, *, key: str | None = None) -> DataFrame:
        """Compute a frame and keep it, without its lineage.

        A frame is sorted by the column `key`, and a large one partitioned by it, so that joins by it need no shuffle.
        Of a small one the optimizer knows whether it has no rows, and leaves out what is joined with it.
        """
        if self.tuning.small:
            if _has_no_rows_by_plan(frame):
                return _without_rows(frame)
            rows = self.narrow(_rows_alone(frame))
            kept = self._keep(name, rows) if key is None else self._keep_sorted(name, rows, key)
            return _without_rows(kept) if _has_no_rows(kept) else kept
        if key is None:
            return self._keep(name, frame)
        return self._keep_sorted(name, frame.repartition(self.tuning.partitions, key), key)

    def materialize_all(self, name: str, makers: Sequence[Callable[[], DataFrame]]) -> DataFrame:
        """Compute the union of frames and keep it.

        For few messages, planning them one by one is less work, and three threads plan at once.
        """
        if not self.tuning.small:
            return self.materialize(name, functools.reduce(DataFrame.unionAll, [make() for make in makers]))
        with self.threads() as pool:
            frames = pool.map(lambda make: self.materialize(name, make()), makers)
            return functools.reduce(DataFrame.unionAll, frames)

    @abstractmethod
    def _keep(self, name: str, frame: DataFrame) -> DataFrame: ...

    @abstractmethod
    def _keep_sorted(self, name: str, frame: DataFrame, key: str) -> DataFrame: ...


@dataclass(frozen=True)
class _ParquetStore(FrameStore):
    """Keeps frames as Parquet files in a folder of this machine."""

    folder: str
    tables: list[str] = field(default_factory=list)  # that the session's catalog has because of this store

    def _keep(self, name: str, frame: DataFrame) -> DataFrame:
        path = self._path(name)
        frame.write.parquet(path)
        return frame.sparkSession.read.schema(frame.schema).parquet(path)

    def _keep_sorted(self, name: str, frame: DataFrame, key: str) -> DataFrame:
        # Only a table of the session's catalog remembers how its files are partitioned.
        table = f"mqpg_{uuid.uuid4().hex}"
        writer = frame.write.format("parquet").option("path", self._path(name))
        writer.bucketBy(self.tuning.partitions, key).sortBy(key).saveAsTable(table)
        self.tables.append(table)
        return frame.sparkSession.table(table)

    def _path(self, name: str) -> str:
        # The names of queries have those of groups and topics in them.
        return f"{self.folder}/{re.sub('[^A-Za-z0-9_]+', '-', name)}-{uuid.uuid4().hex}"


@dataclass(frozen=True)
class _ExecutorStore(FrameStore):
    """Keeps frames with the executors: small ones, and those of clusters.

    If an executor is lost, its part is lost too, and Spark fails the audit.
    """

    def _keep(self, name: str, frame: DataFrame) -> DataFrame:
        del name
        level = StorageLevel.MEMORY_AND_DISK_DESER if self.tuning.small else StorageLevel.DISK_ONLY
        return frame.localCheckpoint(storageLevel=level)

    def _keep_sorted(self, name: str, frame: DataFrame, key: str) -> DataFrame:
        return self._keep(name, frame.sortWithinPartitions(key))


def _rows_alone(frame: DataFrame) -> DataFrame:
    """A frame of the same rows, of whose plan nothing is left.

    What is kept with a plan counts as as large as all that it was made of, multiplied, and would be shuffled.
    """
    session, planned = frame.sparkSession, frame._jdf.queryExecution()
    rows = session._jsparkSession.internalCreateDataFrame(planned.toRdd(), frame._jdf.schema(), False)
    return DataFrame(rows, session)


def _has_no_rows_by_plan(frame: DataFrame) -> bool:
    """Whether the optimizer found out that a frame has no rows, as it does where one without rows is joined."""
    most = frame._jdf.queryExecution().optimizedPlan().maxRows()
    return bool(most.isDefined() and most.get() == 0)


def _has_no_rows(frame: DataFrame) -> bool:
    """Whether a frame that is kept has no rows. `DataFrame.isEmpty` would plan a query first."""
    return bool(frame._jdf.logicalPlan().rdd().isEmpty())


def _without_rows(frame: DataFrame) -> DataFrame:
    """A frame of the same columns that has no rows, which its plan says."""
    rows = to_arrow_schema(frame.schema, timezone="UTC").empty_table()
    return frame.sparkSession.createDataFrame(rows, frame.schema)


@contextlib.contextmanager
def open_store(spark: SparkSession, tuning: Tuning) -> Iterator[FrameStore]:
    """Make a store, with Spark's settings to match, until the block ends.

    A large audit in this process has a temporary folder, any other the executors' memory and disks.
    """
    with session_settings(spark, tuning.settings()), named_calls(spark):
        if tuning.small or not is_local(spark):
            yield _ExecutorStore(tuning, spark)
            return
        with tempfile.TemporaryDirectory(prefix="mqpg-audit-") as folder:
            # Hadoop takes the path as it is. It would not understand the %20 of a proper URI.
            store = _ParquetStore(tuning, spark, f"file://{folder}")
            try:
                yield store
            finally:
                for table in store.tables:
                    spark.sql(f"drop table {table}")
