"""One JVM and one clean history for all tests.

Each test that changes the history gets copies of the three databases.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.sql.engine import run_audit as run_sql_audit
from mqpg.schema.copies import settle_in
from mqpg.spark.jobs.audit import run_audit_in
from mqpg.spark.read.session import open_session
from mqpg.spark.read.tuning import Tuning
from tests.audit.story import Story, Trio, write_history
from tests.fixtures.databases import Databases
from tests.fixtures.server import Server


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """The session that all audit tests share."""
    # The JVM of a few small audits compiles less, because it ends sooner than that would pay. `make test` has few.
    many = pytestconfig.option.markexpr == "audits"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQPG_CLASS_ARCHIVE", "off")  # writing one costs more than it saves here
        with open_session(2, memory="1g", tuning=Tuning(messages=10_000_000 if many else 0)) as session:
            yield session


@pytest.fixture(scope="session")
def history(server: Server, databases: Databases, template: str) -> Iterator[tuple[str, str, str]]:
    """Names of the three databases with the clean history."""
    names = (databases.create(template), databases.create(), databases.create())
    with Story.of(Trio(*map(server.dsn, names))) as story:
        write_history(story)
    yield names
    for name in names:
        databases.drop(name)


@pytest.fixture
def trio(server: Server, databases: Databases, history: tuple[str, str, str]) -> Iterator[Trio]:
    """Copies of the clean history, which a test may change."""
    names = [databases.copy(name) for name in history]
    with psycopg.connect(server.dsn(names[0])) as connection:
        settle_in(connection)  # the same broker, moved
    yield Trio(*map(server.dsn, names))
    for name in names:
        databases.drop(name)


@pytest.fixture
def story(trio: Trio) -> Iterator[Story]:
    """Connections to `trio`."""
    with Story.of(trio) as opened:
        yield opened


@pytest.fixture
def role(server: Server) -> Iterator[str]:
    """A role that may log in. Request it before the databases, because they are dropped first."""
    name = f"auditor_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.dsn(), autocommit=True) as db:
        db.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
        yield name
        db.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


# Spark takes many times as long, so `make test` runs the tests with this fixture in SQL only, and
# test_engines.py compares both engines on damaged histories with faults of every kind (make test-slow).
@pytest.fixture(params=[pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.audits]), "sql"])
def run_audit(request: pytest.FixtureRequest) -> Callable[[AuditOptions], Report]:
    """A function that runs one audit, with each of the engines in turn."""
    if request.param == "sql":
        return run_sql_audit
    spark: SparkSession = request.getfixturevalue("spark")
    return lambda options: run_audit_in(spark, options)


@pytest.fixture
def audit(run_audit: Callable[[AuditOptions], Report], trio: Trio) -> Callable[..., Report]:
    """A function that audits `trio`. Its keyword arguments are those of AuditOptions."""

    def run(**options: Any) -> Report:
        return run_audit(trio.options(**options))

    return run


@pytest.fixture
def audit_in_spark(spark: SparkSession, trio: Trio) -> Callable[..., Report]:
    """As `audit`, always in Spark."""

    def run(**options: Any) -> Report:
        return run_audit_in(spark, trio.options(**options))

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow more time, because a JVM is slow on a busy machine."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.timeout(600))
