"""A program for a cluster. It copies topic `orders` into topic `copy`, and notes which worker has read each message.

Arguments: DSN, folder of the checkpoint, when it ends (`now`: what is there now is copied; `never`).
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from mqpg.spark import register


def note_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the name of the worker. An executor works in the folder <worker>/<application>/<executor>."""
    for batch in batches:
        yield batch.append_column("tag", pa.array([Path.cwd().parents[1].name] * batch.num_rows, pa.string()))


def main(dsn: str, folder: str, ends: str) -> None:
    """Copy in batches of 1000."""
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    source = spark.readStream.format("mqpg").options(dsn=dsn, topic="orders", group="copying")
    orders = source.options(columns="key,payload", maxOffsetsPerTrigger=1000, minPartitions=4).load()
    copies = orders.mapInArrow(note_worker, "key string, payload string, tag string")
    writer = copies.writeStream.format("mqpg").options(dsn=dsn, topic="copy", producerGroup="spark")
    writer = writer.option("checkpointLocation", folder)
    writer = writer.trigger(availableNow=True) if ends == "now" else writer.trigger(processingTime="0 seconds")
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
