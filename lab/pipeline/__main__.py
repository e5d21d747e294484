"""`make pipeline`: the data source of Spark beside JDBC, millions of messages through it, and its lag.

All run in one session with a thread for each core, against a server of their own.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Annotated

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession

import mqpg
from lab.command import percentiles
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from mqpg.spark import register
from mqpg.spark.read.jdbc import jdbc_options
from mqpg.spark.read.session import open_session
from mqpg.spark.read.tuning import Tuning

__all__ = ["app"]

_SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
_CALL = 10_000  # messages of one send
_WARM = 3  # rounds that do not count
_PLAIN = """
    create table plain as
    select 'orders' as topic, o.queue_id as queue, r.queue_offset as "offset", r.message_id, r.key, r.tag,
        r.headers::text, r.payload::text, r.born_at, r.appended_at
    from mqpg.topic_offsets('orders') o
    cross join generate_series(0, o.next_offset, 100000) as first
    cross join lateral mqpg.fetch_range('orders', o.queue_id, first, least(first + 100000, o.next_offset)) as r
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)
Messages = Annotated[int, typer.Option(min=1, help="Messages that are sent.")]


@contextmanager
def _running() -> Iterator[tuple[str, SparkSession]]:
    """Run a broker with topics `orders` and `copy` of 8 queues, and a session of Spark."""
    with EmbeddedServer(settings=_SETTINGS) as server:
        dsn = server.create_database("pipeline")
        migrate.upgrade(dsn)
        with mqpg.connect(dsn) as mq:
            mq.create_topic("orders", queues=8)
            mq.create_topic("copy", queues=8)
            mq.create_producer_group("spark", check_after="1 day", expire_after="1 day", max_undecided=10_000_000)
        with open_session(memory="2g", tuning=Tuning(messages=10_000_000)) as spark:
            register(spark)
            yield dsn, spark


def _send(mq: mqpg.Client, numbers: range) -> None:
    """Send orders of some 200 bytes, with keys, tags and headers."""
    mq.send_batch(
        "orders",
        [{"id": n, "customer": n % 100_003, "amount": n % 1000, "note": "x" * (n % 200)} for n in numbers],
        keys=[str(n) for n in numbers],
        tags=["new"] * len(numbers),
        headers=[{"trace": f"{n:032x}"} for n in numbers],
    )


def _fill(dsn: str, messages: int) -> None:
    began = time.monotonic()
    with mqpg.connect(dsn) as mq:
        for first in range(0, messages, _CALL):
            _send(mq, range(first, min(first + _CALL, messages)))
        _append(mq)
    print(f"sent {messages:,} messages in {time.monotonic() - began:.0f} s", flush=True)


def _append(mq: mqpg.Client) -> None:
    while mq.append():
        pass


@app.command()
def rate(messages: Messages = 2_000_000, rounds: Annotated[int, typer.Option(min=1)] = 7) -> None:
    """Read a topic, and by plain JDBC a table with the same rows, in turns. Medians count."""
    with _running() as (dsn, spark):
        _fill(dsn, messages)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_PLAIN)
            connection.execute("create index on plain (message_id)")
            connection.execute("vacuum analyze plain")
            lowest, highest = connection.execute("select min(message_id), max(message_id) from plain").fetchone() or ()
        place = conninfo_to_dict(dsn)
        jdbc = jdbc_options(
            str(place["host"]), int(str(place["port"])), str(place["dbname"]), {"user": str(place["user"])},
            str(place.get("password", "")),
        )  # fmt: skip
        jdbc |= {"dbtable": "plain", "fetchsize": "10000", "numPartitions": "2", "partitionColumn": "message_id"}
        jdbc |= {"lowerBound": str(lowest), "upperBound": str(highest + 1)}
        sides: dict[str, Callable[[], DataFrame]] = {
            "jdbc": lambda: spark.read.format("jdbc").options(**jdbc).load(),
            "mqpg": lambda: spark.read.format("mqpg").options(dsn=dsn, topic="orders").load(),
        }
        rates: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(_WARM + rounds):
            for side, load in sides.items():
                began = time.perf_counter()
                load().write.format("noop").mode("overwrite").save()
                rates[side].append(messages / (time.perf_counter() - began))
                print(f"round {number - _WARM + 1:>2}  {side}  {rates[side][-1]:>9,.0f} /s", flush=True)
    found = {side: median(values[_WARM:]) for side, values in rates.items()}
    print(f"medians: jdbc {found['jdbc']:,.0f} /s, mqpg {found['mqpg']:,.0f} /s, {found['mqpg'] / found['jdbc']:.2f}")


@app.command()
def copy(messages: Messages = 10_000_000) -> None:
    """Copy a topic into Parquet, and through a transformation into another topic. Compare all ids."""
    with _running() as (dsn, spark), tempfile.TemporaryDirectory(prefix="mqpg-pipeline-") as folder:
        _fill(dsn, messages)
        source = spark.readStream.format("mqpg").options(dsn=dsn, topic="orders", maxOffsetsPerTrigger=500_000)
        _run(source.option("group", "lake").load(), "parquet", f"{folder}/lake", path=f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows").selectExpr("cast(get_json_object(payload, '$.id') as bigint) as id")
        same = _compare("Parquet", rows, messages)
        orders = source.options(group="cleaning", schema="id bigint, amount bigint").load()
        doubled = orders.selectExpr("key", "to_json(struct(payload.id, payload.amount * 2 as amount)) as payload")
        _run(doubled, "mqpg", f"{folder}/copy", dsn=dsn, topic="copy", producerGroup="spark")
        with mqpg.connect(dsn) as mq:
            _append(mq)
        copies = spark.read.format("mqpg").options(dsn=dsn, topic="copy", schema="id bigint", columns="payload")
        same = _compare("topic", copies.load().selectExpr("payload.id"), messages) and same
    raise typer.Exit(not same)


def _run(frame: DataFrame, form: str, checkpoint: str, **options: str) -> None:
    began = time.monotonic()
    writer = frame.writeStream.format(form).options(**options).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    print(f"to {form} in {time.monotonic() - began:.0f} s", flush=True)


def _compare(what: str, ids: DataFrame, messages: int) -> bool:
    """Whether the ids are those from 0 to `messages` - 1, each once."""
    counts = ids.selectExpr("count(id)", "count(distinct id)", "min(id)", "max(id)", "count(*)").first()
    same = tuple(counts or ()) == (messages, messages, 0, messages - 1, messages)
    print(f"{what}: ids in {messages:,}, out {counts[0]:,}: {'sets equal' if same else f'DIFFERENT, {counts}'}")  # type: ignore[index]
    return same


@app.command()
def lag(
    seconds: Annotated[int, typer.Option(min=1)] = 60, per_second: Annotated[int, typer.Option(min=1)] = 5000
) -> None:
    """Send at a pace, and read by a stream with triggers of 1 s. Print the age of messages when their batch is done."""
    lags: list[float] = []

    def note(batch: DataFrame, _: int) -> None:
        born = batch.select("born_at").toArrow()["born_at"]
        lags.extend(time.time() - moment.timestamp() for moment in born.to_pylist())

    with _running() as (dsn, spark):
        stream = spark.readStream.format("mqpg").options(
            dsn=dsn, topic="orders", group="lag", columns="payload,born_at"
        )
        query = stream.load().writeStream.foreachBatch(note).trigger(processingTime="1 second").start()
        ended = threading.Event()
        with mqpg.connect(dsn) as mq:
            appender = threading.Thread(target=_append_until, args=(dsn, ended), daemon=True)
            appender.start()
            for _ in range(10):  # until everything is compiled
                _send(mq, range(per_second))
                query.processAllAvailable()
            lags.clear()
            began = time.monotonic()
            for number in range(10 * seconds):
                _send(mq, range(number * per_second // 10, (number + 1) * per_second // 10))
                time.sleep(max(0.0, began + (number + 1) / 10 - time.monotonic()))
            sent = seconds * per_second / (time.monotonic() - began)
        query.processAllAvailable()
        ended.set()
        appender.join()
        query.stop()
    found = percentiles(lags)
    print(f"{sent:,.0f} /s, lag {', '.join(f'{name} {value:.2f} s' for name, value in found.items())}")


def _append_until(dsn: str, ended: threading.Event) -> None:
    with mqpg.connect(dsn) as mq:
        while not ended.wait(0.05):
            _append(mq)


if __name__ == "__main__":
    app()
