"""Topics as batches and streams of Spark, into files and into topics. One module, so that there is one JVM."""

import json
import runpy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import mqpg
from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.engine import run_audit
from mqpg.spark import register
from tests.support.broker import Session
from tests.support.company import value
from tests.support.patience import patient
from tests.support.retention import gone, retain, roll

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
Load = Callable[..., DataFrame]
ODD = ['"', "\\", "a,b", "line\nline", "\r\n", "\\N", "\\.", "", " ", "é€😀", "null", "'", "\x1d\x1e\x1f"]


def fill(mq: mqpg.Client, messages: int) -> None:
    mq.send_batch("orders", [{"n": n} for n in range(messages)], keys=[str(n) for n in range(messages)])
    mq.append()


def run(frame: DataFrame, folder: Path, form: str = "parquet", **options: str) -> StreamingQuery:
    """Write all that is there now, with a checkpoint in the folder."""
    options |= {"path": str(folder / "rows")} if form == "parquet" else {}
    writer = frame.writeStream.format(form).options(**options).option("checkpointLocation", str(folder / "checkpoint"))

    def to_the_end() -> StreamingQuery:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return patient(to_the_end)


def forget_last_commit(folder: Path) -> None:
    """As if the driver had died when a batch was done and Spark had not noted it."""
    commits = folder / "checkpoint" / "commits"
    last = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def test_all_columns_arrive_as_they_are(mq: mqpg.Client, load: Load) -> None:
    for number, text in enumerate(ODD):
        key, tag = text or None, "t" if number % 2 else None
        mq.send("orders", {"n": number, "text": text}, key=key, tag=tag, headers={"h": text})
    mq.append()
    fetched = {(queue, one.queue_offset): one for queue in range(4) for one in mq.fetch("orders", queue, 0, 1000)}
    rows = patient(lambda: load().collect())
    assert {(row.queue, row.offset) for row in rows} == set(fetched)
    assert len(rows) == len(ODD)
    for row in rows:
        one = fetched[row.queue, row.offset]
        assert (row.topic, row.message_id, row.key, row.tag) == ("orders", one.message_id, one.key, one.tag)
        assert (json.loads(row.payload), json.loads(row.headers)) == (one.payload, one.headers)
        assert row.born_at.timestamp() == pytest.approx(one.born_at.timestamp(), abs=1e-5)
        assert timedelta(0) <= row.appended_at - row.born_at < timedelta(minutes=10)
    parsed = patient(lambda: load(schema="n int, text string, missing date", columns="headers,payload"))
    assert parsed.columns == ["headers", "payload"]
    found = {row.n: (row.text, row.missing) for row in patient(parsed.select("payload.*").collect)}
    assert found == {number: (text, None) for number, text in enumerate(ODD)}


def test_a_frame_may_be_used_again(mq: mqpg.Client, load: Load) -> None:
    """Spark 4.3 would keep what a filter that was handed over has narrowed."""
    mq.send_batch("orders", [{"n": n} for n in range(400)], keys=[str(n) for n in range(400)])
    mq.append()
    frame = patient(lambda: load(columns="queue,offset"))
    first = frame.where("offset < 5")
    assert [patient(one.count) for one in (first, frame, first.union(frame))] == [20, 400, 420]


def test_an_error_names_its_cause(mq: mqpg.Client, load: Load) -> None:
    mq.send("orders", {"n": "no number"})
    mq.append()
    for options, cause in (
        ({"startingOffset": "latest"}, r"(?i)option startingOffset is unknown"),
        ({"schema": "n int"}, "option schema: a payload does not fit"),
        ({"topic": "nowhere"}, "topic 'nowhere' does not exist"),
    ):
        with pytest.raises(PySparkException, match=cause):
            patient(lambda options=options: load(**options).collect())  # type: ignore[misc]


def test_a_stream_reads_each_message_once_and_its_group_follows(
    spark: SparkSession, mq: mqpg.Client, dsn: str, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """Retention is over at once, but what the group has not read waits for it."""
    session = Session(db)
    mq.subscribe("lake", "orders")
    retain(session, "0 s")
    stream = spark.readStream.format("mqpg").options(dsn=dsn, topic="orders", group="lake", maxOffsetsPerTrigger=150)
    lag = "select sum(lag)::int from mqpg.subscription_lag where consumer_group = 'lake'"
    for total in (400, 800):
        fill(mq, 400)
        gone(session, {f"commit_log_{total // 400}"}, roll(session))
        query = run(stream.load(), tmp_path)
        rows = spark.read.parquet(str(tmp_path / "rows"))
        assert (rows.count(), rows.select("queue", "offset").distinct().count()) == (total, total)
        assert {json.loads(row.payload)["n"] for row in rows.select("payload").collect()} == set(range(400))
        assert value(db, lag) == 0
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    assert [one["numInputRows"] for one in progress] == [150, 150, 100]
    report = run_audit(AuditOptions(dsn))
    assert (report.verdict.value, sum(report.anomalies.values())) == ("valid", 0)


def test_a_repeated_batch_takes_effect_once(
    spark: SparkSession, mq: mqpg.Client, dsn: str, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    mq.create_topic("copy", queues=2)
    source = spark.readStream.format("mqpg").options(dsn=dsn, topic="orders", maxOffsetsPerTrigger=150)
    copied = source.load().selectExpr("key", "payload", "tag", "'copy' as topic")
    sink = {"dsn": dsn, "producerGroup": "spark"}
    decided = "select array_agg(format('%s %s', op, n) order by op) from (select op, count(*) as n from mqpg.op_log group by 1) o"
    fill(mq, 400)
    run(copied, tmp_path, "mqpg", **sink)
    forget_last_commit(tmp_path)
    run(copied, tmp_path, "mqpg", **sink)
    assert value(db, decided) == ["b 100", "c 400"]
    mq.append()
    copies = [message.payload["n"] for queue in (0, 1) for message in mq.fetch("copy", queue, 0, 1000)]
    assert sorted(copies) == list(range(400))
    report = run_audit(AuditOptions(dsn))
    assert (report.verdict.value, sum(report.anomalies.values())) == ("valid", 0)


def test_a_first_batch_is_repeated_from_where_it_began(
    spark: SparkSession, mq: mqpg.Client, dsn: str, tmp_path: Path
) -> None:
    source = spark.readStream.format("mqpg").options(dsn=dsn, topic="orders")
    fill(mq, 40)
    run(source.load(), tmp_path)
    forget_last_commit(tmp_path)
    (tmp_path / "rows").rename(tmp_path / "lost")
    fill(mq, 40)
    run(source.option("startingOffsets", "latest").load(), tmp_path)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 80


@pytest.mark.audits
def test_a_batch_may_have_a_number(spark: SparkSession, mq: mqpg.Client, dsn: str, tmp_path: Path) -> None:
    rows = [(f'{{"n": {n}}}', str(n), '{"h": 1}') for n in range(50)]
    frame = spark.createDataFrame(rows, "payload string, key string, headers string")
    writer = frame.write.format("mqpg").mode("append").options(dsn=dsn, topic="orders", producerGroup="spark")
    for _ in range(2):
        patient(writer.options(writer="nightly", batch=20260131).save)
    mq.append()
    found = [message for queue in range(4) for message in mq.fetch("orders", queue, 0, 1000)]
    assert sorted((one.payload["n"], one.key, one.headers["h"]) for one in found) == [(n, str(n), 1) for n in range(50)]


def test_a_thread_that_registers_may_write(spark: SparkSession, mq: mqpg.Client, dsn: str) -> None:
    frame = spark.createDataFrame([("{}",)], "payload string")

    def save() -> None:
        register(spark)
        patient(frame.write.format("mqpg").mode("append").options(dsn=dsn, topic="orders", producerGroup="spark").save)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(save).result()
    mq.append()
    assert sum(len(mq.fetch("orders", queue, 0, 10)) for queue in range(4)) == 1


def test_the_example(
    spark: SparkSession,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second run continues where the first one ended
        patient(lambda: runpy.run_path(str(ROOT / "examples" / "spark" / "orders_pipeline.py"), run_name="__main__"))
        found = json.loads(capsys.readouterr().out)
        with mqpg.connect(dsn) as client:
            sent = sum(len(client.fetch("orders", queue, 0, 10_000)) for queue in range(8))
        assert sent >= 100
        assert found == {"orders": sent * 9 // 10, "places": sent * 9 // 10, "amount": sent * 45}
