"""What Spark, and tools such as DBeaver, read of schema mqpg_audit with PostgreSQL's JDBC driver."""

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from tests.audit.story import Story, Trio

pytestmark = pytest.mark.spark


@pytest.fixture
def auditor(trio: Trio, story: Story) -> Iterator[dict[str, str]]:
    """Options of a JDBC connection as a role that may only audit."""
    name = f"auditor_{uuid.uuid4().hex[:8]}"
    server = conninfo_to_dict(trio.broker)
    story.broker.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
    story.broker.execute("select mqpg.grant_auditor(%s)", (name,))
    yield {
        "url": f"jdbc:postgresql://{server['host']}:{server['port']}/{server['dbname']}",
        "user": name,
        "password": "x",
        "driver": "org.postgresql.Driver",
    }
    story.broker.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(name)))


def views(db: psycopg.Connection[Any]) -> list[str]:
    rows = db.execute("select relname from pg_class where relnamespace = 'mqpg_audit'::regnamespace")
    return [row["relname"] for row in rows]


def test_each_view_is_read(spark: SparkSession, story: Story, auditor: dict[str, str]) -> None:
    for view in views(story.broker):
        frame = spark.read.format("jdbc").options(**auditor, dbtable=f"mqpg_audit.{view}").load()
        cursor = story.broker.execute(sql.SQL("select * from {}").format(sql.Identifier("mqpg_audit", view)))
        assert frame.columns == [column.name for column in cursor.description or ()]
        assert len(frame.collect()) == cursor.rowcount, view


@pytest.mark.parametrize(
    ("view", "column", "identity"),
    [
        ("message", "batch_id", ["message_id", "state", "key_hash", "payload_bytes"]),
        ("queue_entry", "tick_id", ["topic_id", "queue_id", "queue_offset", "subscription_id", "message_id"]),
    ],
)
def test_a_view_is_read_in_parts(
    spark: SparkSession, story: Story, auditor: dict[str, str], view: str, column: str, identity: list[str]
) -> None:
    """Together they have each row once."""
    bound = story.broker.execute("select * from mqpg_audit.bound where cut_column = %s", (column,)).fetchone()
    assert bound is not None
    cut = {"partitionColumn": column, "lowerBound": bound["lower_bound"], "upperBound": bound["upper_bound"]}
    frame = (
        spark.read.format("jdbc")
        .options(**auditor, dbtable=f"mqpg_audit.{view}", numPartitions=5, **cut)
        .load()
        .select(*identity)
    )
    assert frame.rdd.getNumPartitions() == 5
    sizes = [len(part) for part in frame.rdd.glom().collect()]
    assert sum(1 for size in sizes if size) > 1
    query = sql.SQL("select {} from {}").format(
        sql.SQL(", ").join(map(sql.Identifier, identity)), sql.Identifier("mqpg_audit", view)
    )
    with story.broker.cursor(row_factory=dict_row) as cursor:
        expected = [tuple(row.values()) for row in cursor.execute(query)]
    assert sorted(map(str, (tuple(row) for row in frame.collect()))) == sorted(map(str, expected))


def test_the_driver_lists_views_columns_and_their_descriptions(
    spark: SparkSession, story: Story, auditor: dict[str, str]
) -> None:
    """As DBeaver and other tools ask for them."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for name in ("user", "password"):
        properties.setProperty(name, auditor[name])
    connection = jvm.org.postgresql.Driver().connect(auditor["url"], properties)
    try:
        catalog = connection.getMetaData()
        tables = listed(catalog.getTables(None, "mqpg_audit", "%", None), "TABLE_NAME", "TABLE_TYPE", "REMARKS")
        assert {name for name, kind, remarks in tables if kind == "VIEW" and remarks} == set(views(story.broker))
        columns = listed(catalog.getColumns(None, "mqpg_audit", "%", "%"), "TABLE_NAME", "COLUMN_NAME", "REMARKS")
        assert len(columns) > 100
        assert [column for column in columns if not column[2]] == []
    finally:
        connection.close()


def listed(result: Any, *columns: str) -> list[tuple[str, ...]]:
    rows = []
    while result.next():
        rows.append(tuple(result.getString(column) for column in columns))
    return rows
