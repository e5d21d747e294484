"""A program that copies topic `orders` into topic `copy` with Spark. It can kill something at one step.

Arguments: DSN, folder, step (a method of the sink and before or after it; "" for none), what is killed (driver, task
or broker).
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from mqpg.spark import register
from mqpg.spark.pipeline.options import WriteOptions
from mqpg.spark.pipeline.source import MqpgDataSource
from mqpg.spark.pipeline.writer import Prepared, StreamWriter

__all__ = ["Killing", "KillingWriter", "strike"]


def strike(step: str) -> None:
    """Kill what is to be killed, once, in the second batch."""
    folder = Path(os.environ["FOLDER"])
    if step != os.environ["STEP"]:
        return
    try:
        (folder / "struck").touch(exist_ok=False)
    except FileExistsError:
        return
    pid = os.getpid() if os.environ["WHOM"] == "task" else int((folder / f"{os.environ['WHOM']}.pid").read_text())
    os.kill(pid, signal.SIGKILL)


class KillingWriter(StreamWriter):  # type: ignore[misc]
    """The sink, with steps at which it is killed."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        second = (TaskContext.get().getLocalProperty("streaming.sql.batchId") or "1") != "0"  # type: ignore[union-attr]
        if second:
            strike("before write")
        prepared = super().write(iterator)
        if second:
            strike("after write")
        return prepared

    def commit(self, messages: list[Any], batchId: int) -> None:
        if batchId:
            strike("before commit")
        super().commit(messages, batchId)
        if batchId:
            strike("after commit")


class Killing(MqpgDataSource):  # type: ignore[misc]
    """The data source with this sink."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingWriter:
        return KillingWriter(WriteOptions.of(self.options, stream=True), schema, overwrite)


def main(dsn: str, folder: Path, step: str, whom: str) -> None:
    """Copy what is there now, in batches of 100."""
    os.environ |= {"FOLDER": str(folder), "STEP": step, "WHOM": whom, "PYSPARK_PYTHON": sys.executable}
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    spark.dataSource.register(Killing)
    (folder / "driver.pid").write_text(str(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()))  # type: ignore[union-attr]
    source = spark.readStream.format("mqpg").options(dsn=dsn, topic="orders", group="copying", maxOffsetsPerTrigger=100)
    writer = source.load().select("key", "payload").writeStream.format("mqpg")
    writer = writer.options(dsn=dsn, topic="copy", producerGroup="spark")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
