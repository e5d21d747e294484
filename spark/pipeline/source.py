"""The data source `mqpg` of Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .options import ReadOptions, WriteOptions
from .reader import BatchReader, StreamReader
from .writer import BatchWriter, StreamWriter

__all__ = ["MqpgDataSource", "register"]


class MqpgDataSource(DataSource):
    """`format("mqpg")`. Spark calls it."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "mqpg"

    def schema(self) -> str:
        """The columns that the options choose."""
        stream = "group" in self.options or "maxOffsetsPerTrigger" in self.options
        return ReadOptions.of(self.options, stream=stream).schema()

    def reader(self, schema: StructType) -> BatchReader:
        """A batch that reads."""
        return BatchReader(ReadOptions.of(self.options, stream=False), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """A stream that reads."""
        return StreamReader(ReadOptions.of(self.options, stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A batch that writes."""
        return BatchWriter(WriteOptions.of(self.options, stream=False), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """A stream that writes."""
        return StreamWriter(WriteOptions.of(self.options, stream=True), schema, overwrite)


def register(spark: SparkSession) -> None:
    """Register the format in a session. See `mqpg.spark.register`."""
    spark.dataSource.register(MqpgDataSource)
    # Spark looks for the format of a write in the thread's active session, and this makes the session that one.
    spark.createDataFrame([], "n int")
