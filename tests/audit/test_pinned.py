"""A read that does not show the exported snapshot is refused."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from mqpg.errors import ConfigurationError, ConnectionFailed, DatabaseError
from mqpg.spark.read.database import jdbc_options, parse_database
from mqpg.spark.read.jdbc import JdbcReader, UnpinnedRead, require_pinned
from mqpg.spark.read.queries import Query
from mqpg.spark.read.snapshot import Snapshot, pinned_snapshot
from mqpg.spark.read.stores import FrameStore, open_store
from mqpg.spark.read.tuning import Tuning

NUMBERS = Query("numbers", "x.id, x.n", "numbers x", StructType([StructField("n", IntegerType())]), "x.id")
PAGES = dataclasses.replace(NUMBERS, columns="x.n", key=None, table=("public", "numbers"))


class Unpinned(Snapshot):  # type: ignore[misc]
    """A snapshot whose sessions pin nothing, as with SET TRANSACTION in autocommit mode."""

    def session_init(self) -> str:
        """Pin nothing."""
        return "select 1"


@pytest.fixture
def numbers(empty_dsn: str) -> str:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("create table numbers (id bigint, n int)")
        connection.execute("insert into numbers select g, 1 from generate_series(1, 60000) g")
    return empty_dsn


def churn(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from numbers where id = 1")
        connection.execute("insert into numbers values (60001, 1)")


@pytest.mark.spark
def test_partitions_see_what_the_exporter_saw(spark: SparkSession, numbers: str) -> None:
    with pinned_snapshot(parse_database(numbers)) as snapshot:
        reader = JdbcReader(spark, 2)
        frame = reader.read(snapshot, NUMBERS)
        churn(numbers)
        assert reader.verify() == {"numbers": 60000}
        assert frame.rdd.getNumPartitions() == 2
        assert frame.count() == 60000


@pytest.mark.spark
def test_one_query_in_the_databases_of_several_members(
    spark: SparkSession, numbers: str, new_database: Callable[..., str], large: FrameStore
) -> None:
    other = new_database(empty=True)
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("create table numbers as select g::bigint as id, 2 as n from generate_series(1, 5) g")
    for store in (None, large):
        reader = JdbcReader(spark, 2, store)
        with (
            pinned_snapshot(parse_database(numbers)) as first,
            pinned_snapshot(parse_database(other)) as second,
        ):
            frames = [reader.read(snapshot, NUMBERS) for snapshot in (first, second)]
            assert reader.verify() == {"numbers": 60005}
        # The snapshots are released, and the rows of both are kept.
        assert [frame.agg({"n": "sum"}).collect()[0][0] for frame in frames] == [60000, 10]


@pytest.mark.spark
def test_unpinned_read_is_refused(spark: SparkSession, numbers: str) -> None:
    with pinned_snapshot(parse_database(numbers)) as snapshot:
        fields = {field.name: getattr(snapshot, field.name) for field in dataclasses.fields(snapshot)}
        reader = JdbcReader(spark, 2)
        reader.read(Unpinned(**fields), NUMBERS)
        churn(numbers)
        with pytest.raises(UnpinnedRead, match="instead of"):
            reader.verify()


@pytest.fixture
def large(spark: SparkSession) -> Iterator[FrameStore]:
    with open_store(spark, Tuning(messages=1_000_000)) as store:
        yield store


@pytest.mark.spark
@pytest.mark.parametrize("query", [NUMBERS, PAGES], ids=["key", "pages"])
def test_large_read_is_proved_at_once(spark: SparkSession, numbers: str, large: FrameStore, query: Query) -> None:
    with pinned_snapshot(parse_database(numbers)) as snapshot:
        churn(numbers)
        reader = JdbcReader(spark, 2, large)
        frame = reader.read(snapshot, query)
    # The snapshot is released, and the rows are kept.
    assert reader.verify() == {"numbers": 60000}
    assert frame.agg({"n": "sum"}).collect()[0][0] == 60000
    assert len(frame.inputFiles()) > 2


@pytest.mark.spark
def test_large_read_of_a_view_has_no_pages(spark: SparkSession, numbers: str, large: FrameStore) -> None:
    with psycopg.connect(numbers, autocommit=True) as connection:
        connection.execute("create view seen as select n from numbers where id <= 50000")
    view = dataclasses.replace(PAGES, origin="seen x", table=("public", "seen"))
    with pinned_snapshot(parse_database(numbers)) as snapshot:
        reader = JdbcReader(spark, 2, large)
        reader.read(snapshot, view)
    assert reader.verify() == {"numbers": 50000}


@pytest.mark.spark
def test_unpinned_large_read_is_refused(spark: SparkSession, numbers: str, large: FrameStore) -> None:
    with pinned_snapshot(parse_database(numbers)) as snapshot:
        fields = {field.name: getattr(snapshot, field.name) for field in dataclasses.fields(snapshot)}
        churn(numbers)
        with pytest.raises(UnpinnedRead, match="instead of"):
            JdbcReader(spark, 2, large).read(Unpinned(**fields), NUMBERS)


@pytest.mark.spark
def test_unreadable_query_is_an_error_with_its_name(spark: SparkSession, numbers: str) -> None:
    absent = dataclasses.replace(NUMBERS, origin="absent x")
    with pinned_snapshot(parse_database(numbers)) as snapshot, pytest.raises(DatabaseError, match="numbers of"):
        JdbcReader(spark, 2).read(snapshot, absent)


@pytest.mark.parametrize(("rows", "seen"), [(3, {"a", "b"}), (3, {"b"}), (2, {"a"}), (4, {"a"})])
def test_require_pinned_refuses(rows: int, seen: set[str | None]) -> None:
    with pytest.raises(UnpinnedRead, match="things"):
        require_pinned("things", "a", 3, rows, seen)


@pytest.mark.parametrize(("rows", "seen"), [(3, {"a"}), (0, {None})])
def test_require_pinned_accepts(rows: int, seen: set[str | None]) -> None:
    require_pinned("things", "a", rows, rows, seen)


def test_server_that_does_not_answer() -> None:
    with (
        pytest.raises(ConnectionFailed, match="no connection to host="),
        pinned_snapshot(parse_database("postgresql://nobody:secret@127.0.0.1:1/none")),
    ):
        pass


def test_password_is_no_part_of_the_jdbc_url() -> None:
    options = jdbc_options("::1", 5432, "orders", {"user": "me", "sslmode": "require"}, "secret")
    assert options["url"] == "jdbc:postgresql://[::1]:5432/orders"
    assert (options["user"], options["password"], options["sslmode"]) == ("me", "secret", "require")
    assert "secret" not in options["url"]


def test_unix_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs TCP"):
        jdbc_options(str(tmp_path), 5432, "orders", {}, "")
