"""The texts of frames, kinds and totals in the words of Spark SQL."""

import importlib.resources
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqpg.audit.sql.statements import statement
from mqpg.spark.dialect import to_spark
from mqpg.spark.read.portable import Column, columns_of_table, portable, spark_schema
from mqpg.spark.read.session import own_session


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exists (select from t)", "exists (select 1 from t)"),
        ("with t as not materialized (values (1))", "with t as (values (1))"),
        ("a.b::text || format('%s', a.c)", "a.b::string || format_string('%s', a.c)"),
        (
            "not q.message_id <@ h.dropped_ids",
            "not (not forall(h.dropped_ids, span -> q.message_id < span.low or q.message_id >= span.high))",
        ),
        ("from t cross join run as u", "from t cross join lateral (table run) as u"),
        ("percentile_cont(array[0.5, 0.99])", "percentile_cont(`array`(0.5, 0.99))"),
        ("b.hashes[1:]", "b.hashes"),
        ("b.hashes[i.i + 1]", "try_element_at(b.hashes, int(i.i + 1))"),
        ("not coalesce(o.o = any(c.settled), false)", "not coalesce(array_contains(c.settled, o.o), false)"),
        ("extract(epoch from a.at - b.at)", "(unix_micros(timestamp '1970-01-01 00:00:00 UTC' + (a.at - b.at)) / 1e6)"),
        (
            "date_part('epoch', greatest(a.at, a.due) - b.at)",
            "(unix_micros(timestamp '1970-01-01 00:00:00 UTC' + (greatest(a.at, a.due) - b.at)) / 1e6)",
        ),
        ("x -- = any(y)\n", "x \n"),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert to_spark(text) == expected


@pytest.mark.spark
@pytest.mark.parametrize("folder", ["frames", "kinds", "conservation", "totals"])
def test_every_text_is_spark_sql(spark: SparkSession, folder: Any) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()
    for file in (importlib.resources.files("mqpg.audit.sql") / folder).iterdir():
        text = statement(folder, file.name.removesuffix(".sql"))
        for exact in (True, False):
            parser.parsePlan(to_spark(text.replace("%s", "1"), exact=exact))


@pytest.mark.spark
def test_functions_answer_as_those_of_postgresql(spark: SparkSession) -> None:
    text = """
    select
        array(
            pg_visible_in_snapshot(a.four, a.snapshot), pg_visible_in_snapshot(a.five, a.snapshot),
            pg_visible_in_snapshot(a.nine, a.snapshot)
        ) as seen,
        extract(epoch from a.late - a.early) as seconds,
        array(a.nine <@ a.ids, a.four <@ a.ids) as inside,
        (select count(*) from generate_series(3, 2)) as none,
        (select sum(i.i) from generate_series(3, 5 - 1) as i (i)) as sum
    from a
    """
    row = (
        "select 4L as four, 5L as five, 9L as nine, named_struct('xmax', 9L, 'running', array(5L)) as snapshot, "
        "timestamp '2026-01-01' as early, timestamp '2026-01-02 00:00:00.5' as late, "
        "array(named_struct('low', 1L, 'high', 2L), named_struct('low', 3L, 'high', 9L)) as ids"
    )
    with own_session(spark) as own:
        own.sql(row).createOrReplaceTempView("a")
        (found,) = own.sql(to_spark(text)).collect()
    assert tuple(found) == ([True, False, False], 86400.5, [False, True], 0, 7)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # types are parsed by its JVM
def test_columns_of_tables() -> None:
    columns = columns_of_table(statement("tables", "ledger_source"))
    assert columns == [Column("ledger", "text"), Column("tolerance", "double precision")]
    assert portable(columns) == "q.ledger::text as ledger, q.tolerance::float8 as tolerance"
    assert spark_schema(columns).simpleString() == "struct<ledger:string,tolerance:double>"
