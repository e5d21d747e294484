"""Fixtures of the protocols' tests: a broker, and databases of a producer and of a consumer.

Both are made once and emptied before each test, which takes a tenth of the time to copy one.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from tests.fixtures.databases import Databases
from tests.fixtures.emptying import empty
from tests.support.broker import Spare
from tests.support.business import business_at


@pytest.fixture(scope="package")
def spare(databases: Databases, template: str) -> Iterator[Spare]:
    """A session on the broker that the tests share, one after the other."""
    with databases.lent(template) as dsn, closing(Spare(dsn)) as made:
        yield made


@pytest.fixture
def dsn(spare: Spare) -> str:
    """DSN of an empty broker."""
    with spare.borrowed() as connection:
        empty(connection)
    return spare.dsn


@pytest.fixture(scope="package")
def business_database(databases: Databases) -> Iterator[str]:
    """DSN of a PostgreSQL database of the user's."""
    with databases.lent() as dsn:
        yield dsn


@pytest.fixture(params=["postgresql", "sqlite"])
def local_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """SQLAlchemy URL of an empty database of the user's, of both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'local.db'}"
    dsn: str = request.getfixturevalue("business_database")
    with psycopg.connect(dsn) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    return dsn.replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.fixture
def engine(local_url: str) -> Iterator[Engine]:
    """An engine for it, with a table `business (id)`."""
    with business_at(local_url) as engine:
        yield engine


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    """As `engine`, SQLite only, for what does not depend on the database."""
    with business_at(f"sqlite:///{tmp_path / 'business.db'}") as engine:
        yield engine
