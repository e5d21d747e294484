"""Orders as a declarative pipeline: a flow that reads topic `orders` and writes topic `clean_orders`, exactly once."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from mqpg.spark import register

DSN = os.environ["MQPG_DATABASE_URL"]
spark = SparkSession.active()
register(spark)

dp.create_sink("clean_orders", "mqpg", {"dsn": DSN, "topic": "clean_orders", "producerGroup": "spark"})


@dp.append_flow(target="clean_orders")
def clean() -> DataFrame:
    """Orders that have an amount. Retention waits for the group."""
    orders = spark.readStream.format("mqpg").options(dsn=DSN, topic="orders", group="cleaning")
    orders = orders.option("schema", "id bigint, amount bigint")
    return orders.load().where("payload.amount is not null").selectExpr("key", "to_json(payload) as payload")
