"""Orders through Spark: a stream that cleans them, a topic for what is clean, and Parquet files. Each exactly once.

Run it as often as you like: each run continues where the last one ended. It needs mqpg[spark] and Java 17, and keeps
its checkpoints and files in the folder `lake`.
"""

import json
import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import mqpg
from mqpg.spark import register

LAKE = Path("lake").absolute()
DSN = os.environ["MQPG_DATABASE_URL"]


def send_orders(mq: mqpg.Client, first: int, count: int) -> None:
    """The shop: every tenth order has no amount."""
    orders = [{"id": n, "item": " Bolt ", "amount": None if n % 10 == 0 else n} for n in range(first, first + count)]
    mq.send_batch("orders", orders, keys=[str(order["id"]) for order in orders])


def read(spark: SparkSession, topic: str, group: str) -> DataFrame:
    """A stream of a topic. Retention waits for its group."""
    stream = spark.readStream.format("mqpg").options(dsn=DSN, topic=topic, group=group)
    return stream.option("schema", "id bigint, item string, amount bigint").load()


def run(frame: DataFrame, name: str, form: str, **options: str) -> None:
    """Process what is there now, and end."""
    writer = frame.writeStream.format(form).options(**options)
    writer = writer.option("checkpointLocation", str(LAKE / "checkpoints" / name))
    writer.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Send some orders, and bring them to the lake."""
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    register(spark)
    with mqpg.connect(DSN) as mq:
        mq.create_topic("orders")
        mq.create_topic("clean_orders")
        mq.create_producer_group("spark", check_after="1 day", expire_after="1 day", max_undecided=10_000_000)
        send_orders(mq, 1, 100)
        mq.append()

        clean = (
            read(spark, "orders", "cleaning")
            .where("payload.amount is not null")
            .selectExpr("key", "to_json(struct(payload.id, trim(payload.item) as item, payload.amount)) as payload")
        )
        run(clean, "cleaning", "mqpg", dsn=DSN, topic="clean_orders", producerGroup="spark")
        mq.append()

        lake = read(spark, "clean_orders", "lake").selectExpr("queue", "offset", "payload.*")
        run(lake, "lake", "parquet", path=str(LAKE / "clean_orders"))

    orders = spark.read.parquet(str(LAKE / "clean_orders"))
    found = orders.selectExpr("count(*) as orders", "count(distinct queue, offset) as places", "sum(amount) as amount")
    print(json.dumps(found.first().asDict()))  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
