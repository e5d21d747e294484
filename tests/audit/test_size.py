"""The size of an audit, counted in messages, and what follows from it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.postgresql_source import PostgresqlSource
from mqpg.audit.sql.sources import open_source
from mqpg.audit.sql.statements import statement
from mqpg.errors import ConfigurationError
from mqpg.spark.dialect import to_spark
from mqpg.spark.jobs.audit import connect_once
from mqpg.spark.read import chunks, tuning
from mqpg.spark.read.portable import columns_of_table, spark_schema
from mqpg.spark.read.session import open_session
from mqpg.spark.read.size import estimate_messages
from mqpg.spark.read.stores import FrameStore, open_store
from mqpg.spark.read.tuning import Tuning, default_memory
from tests.audit.story import LEDGER_DDL

GIB = 1 << 30


def test_messages_of_a_broker_are_counted_and_not_its_rows(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select mqpg.create_topic('orders', 2)")
        for _ in range(3):
            connection.execute("select mqpg.send_batch('orders', array_fill('{}'::text, array[1000]))")
        connection.execute("select mqpg.append()")
        assert connection.execute("select count(*) from mqpg.commit_log").fetchone() == (3,)
    assert connect_once(AuditOptions(dsn=dsn)) == 3000


def test_rows_of_a_ledger_are_estimated_by_its_size(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        with open_source(empty_dsn) as source:
            assert estimate_messages(source) == 0
        connection.execute(LEDGER_DDL.encode())
        connection.execute(
            "insert into mqpg_ledger (handle, entry, done_at) "
            "select format('0123456789abcdef.1.%s.%s', i, md5(i::text)), 'local', now() from generate_series(1, 20000) i"
        )
    with open_source(empty_dsn) as source:
        assert 15_000 < estimate_messages(source) < 30_000


def test_a_ledger_beside_a_broker_is_estimated_without_its_schema(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("revoke usage on schema mqpg from public")
    # pg_monitor may do nothing in the schema.
    with open_source(f"{dsn}{'&' if '?' in dsn else '?'}options=-c%20role%3Dpg_monitor") as source:
        assert isinstance(source, PostgresqlSource)
        assert source.rows("select current_user as name") == [{"name": "pg_monitor"}]
        assert estimate_messages(source) == 0


def test_partitions_grow_with_the_messages() -> None:
    assert [Tuning(n).small for n in (0, 300_000, 300_001)] == [True, True, False]
    assert [Tuning(n).partitions for n in (0, 300_001, 10_000_000, 50_000_000)] == [1, 4, 40, 200]
    assert Tuning(1_000_000).broadcasts(1000)
    assert not Tuning(1_000_000).broadcasts(1_000_000)
    assert ["Parallel" in Tuning(n).java_options() for n in (0, 2_000_000, 2_000_001)] == [False, False, True]


def test_heap_is_a_bounded_share_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(tuning, "_CGROUP_LIMITS", (limit,))
    assert GIB <= default_memory() <= 5 * GIB // 2
    limit.write_text("max\n")
    assert GIB <= default_memory() <= 5 * GIB // 2
    limit.write_text(f"{6 * GIB}\n")
    assert default_memory() <= 6 * GIB // 4
    limit.write_text(f"{2 * GIB}\n")
    assert default_memory() == GIB


@pytest.mark.parametrize("memory", ["4", "much", "-1g", "0g", "4g -Xmx1g"])
def test_malformed_memory_is_refused(memory: str) -> None:
    with pytest.raises(ConfigurationError, match="such as 4g"), open_session(memory=memory):
        pass


@pytest.fixture(params=["in memory", "small", "large"])
def store(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[FrameStore | None]:
    if request.param == "in memory":
        yield None
        return
    with open_store(spark, Tuning(1_000_000 if request.param == "large" else 1)) as opened:
        yield opened


@pytest.mark.spark
@pytest.mark.parametrize("rows", [0, 1, 4, 5])
def test_chunks_of_rows(
    spark: SparkSession, store: FrameStore | None, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(chunks, "_LITERAL", 0)
    schema = spark_schema(columns_of_table(statement("tables", "ledger_row")))
    instant = datetime(2026, 1, 1, 12, tzinfo=UTC)
    given = [("shop", n, f"{n:032x}", "local", instant, None, "orders") for n in range(rows)]
    frame = chunks.frame_of_rows(spark, iter(given), schema, store)
    assert frame.schema == schema
    found = frame.selectExpr("message_id", "string(created_at)", "done_at is null").collect()
    assert sorted(found) == [(n, "2026-01-01 12:00:00", True) for n in range(rows)]


@pytest.mark.spark
def test_small_frame_without_rows_has_none_in_its_plan(spark: SparkSession) -> None:
    some = spark.range(3).selectExpr("id", "array(struct(id)) as ids")
    with open_store(spark, Tuning(1)) as store:
        # The optimizer finds out about the first by itself.
        for none in (some.filter("false"), some.filter("id > 5")):
            kept = store.materialize("none", none)
            assert kept.schema == none.schema
            assert kept._jdf.queryExecution().optimizedPlan().maxRows().get() == 0
        assert sorted(row.id for row in store.materialize("some", some).collect()) == [0, 1, 2]


@pytest.mark.spark
def test_only_row_of_a_frame_becomes_literals(spark: SparkSession) -> None:
    text = """
    select
        timestamp '2026-10-25 01:30:00.123456 UTC' as at, timestamp '0001-01-02 00:00:00 UTC' as first,
        timestamp '9999-12-31 23:59:59 UTC' as last, interval '3 00:00:01.5' day to second as back,
        array(named_struct('low', 1l, 'high', 9223372036854775807l)) as ids, array()::array<bigint> as none,
        0.1::double as slack, '"ü"' as name, true as drained, null::bigint as gone
    """
    (row,) = spark.sql(text).collect()
    frame = chunks.literals_of_row(spark.sql(text))
    assert (frame.schema.simpleString(), frame.collect()) == (spark.sql(text).schema.simpleString(), [row])
    frame.createOrReplaceTempView("run")
    joined = spark.sql(to_spark("select r.id, u.* from range(3) as r cross join run as u"))
    assert "Join" not in joined._jdf.queryExecution().optimizedPlan().toString()
    assert joined.drop("id").distinct().collect() == [row]


@pytest.mark.spark
def test_calls_have_a_name_while_frames_are_kept(spark: SparkSession) -> None:
    def names() -> list[str | None]:
        return [spark.sparkContext.getLocalProperty(f"callSite.{form}") for form in ("short", "long")]

    before = names()
    with open_store(spark, Tuning(1)) as store, store.threads() as pool:
        assert names() == pool.submit(names).result() == ["mqpg audit"] * 2
    assert names() == before
