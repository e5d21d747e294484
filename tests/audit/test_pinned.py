"""A read that does not show the exported snapshot is refused."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from mqpg.audit.sql.sources import open_source
from mqpg.connection.text_session import text_session
from mqpg.errors import ConfigurationError, DatabaseError
from mqpg.spark.read import jdbc
from mqpg.spark.read.jdbc import PinnedReader, UnpinnedRead, jdbc_options, require_pinned
from mqpg.spark.read.portable import Column
from mqpg.spark.read.stores import open_store
from mqpg.spark.read.tuning import Tuning
from mqpg.spark.workspace import open_spark_workspace
from tests.audit.story import LEDGER_DDL

NUMBERS = "(select x.id, x.n from public.numbers as x) as q"
COLUMNS = [Column("id", "bigint"), Column("n", "integer")]


@pytest.fixture
def numbers(empty_dsn: str) -> str:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("create table numbers (id bigint, n int)")
        connection.execute("insert into numbers select g, 1 from generate_series(1, 60000) g")
        connection.execute("insert into numbers values (null, 1)")
    return empty_dsn


def churn(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from numbers where id <= 2")
        connection.execute("insert into numbers values (60001, 1)")


@contextlib.contextmanager
def snapshot_of(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with text_session(dsn, "test") as connection:
        connection.execute("begin isolation level repeatable read read only")
        connection.execute("select 1 from pg_class limit 1")
        yield connection


@pytest.fixture(params=["small", "large"])
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[PinnedReader]:
    with open_store(spark, Tuning(messages=1_000_000 if request.param == "large" else 1)) as store:
        yield PinnedReader(spark, 4, store, few=100)


@pytest.mark.spark
@pytest.mark.parametrize("key", ["id", None])
def test_partitions_see_what_the_exporter_saw(reader: PinnedReader, numbers: str, key: str | None) -> None:
    with snapshot_of(numbers) as connection:
        churn(numbers)
        frame, rows = reader.read(connection, "numbers", NUMBERS, COLUMNS, key)
    # The snapshot is released, and the rows are kept.
    assert rows == 60001
    assert frame.agg({"id": "sum"}).collect()[0][0] == 60000 * 60001 // 2
    assert frame.where("id is null").count() == 1


@pytest.mark.spark
def test_few_rows_come_through_this_process(spark: SparkSession, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PinnedReader, "_read_by_jdbc", None)
    few = NUMBERS.replace(" as x)", " as x where x.id <= 100)")
    with open_store(spark, Tuning()) as store, snapshot_of(numbers) as connection:
        churn(numbers)
        frame, rows = PinnedReader(spark, 4, store, few=100).read(connection, "numbers", few, COLUMNS, "id")
        assert (rows, frame.count()) == (100, 100)


@pytest.mark.spark
def test_a_ledger_is_read_in_ranges_beside_rows_that_are_no_handles(spark: SparkSession, empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(LEDGER_DDL)
        connection.execute(
            "insert into mqpg_ledger (handle, entry) select 'a1b2c3d4e5f6.1.' || g || '.' || md5(g::text), 'local'"
            " from generate_series(1, 60000) g"
        )
        connection.execute("insert into mqpg_ledger (handle, entry) values ('a handle of another kind', 'local')")
    with open_store(spark, Tuning()) as store, open_spark_workspace(spark, empty_dsn, 4, store) as work:
        with open_source(empty_dsn) as source:
            assert source.copy_ledger(work, "shop", "a1b2c3d4e5f6", also_the_brokers=False) == (60000, False)
        ((frame, _),) = work.parts["ledger_row"]
        assert frame.agg({"message_id": "sum"}).collect()[0][0] == 60000 * 60001 // 2


@pytest.mark.spark
def test_unpinned_read_is_refused(reader: PinnedReader, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with SET TRANSACTION in autocommit mode, which pins nothing."""
    monkeypatch.setattr(jdbc, "session_init", lambda _: "select 1")
    with snapshot_of(numbers) as connection:
        churn(numbers)
        with pytest.raises(UnpinnedRead, match="instead of"):
            reader.read(connection, "numbers", NUMBERS, COLUMNS, "id")


@pytest.mark.spark
def test_unreadable_query_is_an_error_with_its_name(reader: PinnedReader, numbers: str) -> None:
    with snapshot_of(numbers) as connection, pytest.raises(DatabaseError, match="numbers of"):
        reader.read(connection, "numbers", NUMBERS.replace("numbers", "absent"), COLUMNS, "id")


@pytest.mark.parametrize("seen", [{"a", "b"}, {"b"}])
def test_require_pinned_refuses(seen: set[str | None]) -> None:
    with pytest.raises(UnpinnedRead, match="things"):
        require_pinned("things", "a", seen)


@pytest.mark.parametrize("seen", [{"a"}, {None}])
def test_require_pinned_accepts(seen: set[str | None]) -> None:
    require_pinned("things", "a", seen)


def test_password_is_no_part_of_the_jdbc_url() -> None:
    options = jdbc_options("::1", 5432, "orders", {"user": "me", "sslmode": "require"}, "secret")
    assert options["url"] == "jdbc:postgresql://[::1]:5432/orders"
    assert (options["user"], options["password"], options["sslmode"]) == ("me", "secret", "require")
    assert "secret" not in options["url"]


def test_unix_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs TCP"):
        jdbc_options(str(tmp_path), 5432, "orders", {}, "")
