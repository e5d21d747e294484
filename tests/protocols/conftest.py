"""Fixtures of the protocols' tests: a broker, and databases of a producer and of a consumer.

Both are made once and emptied before each test, which takes a tenth of the time to copy one.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

import mqpg
from tests.fixtures.databases import Databases
from tests.fixtures.emptying import empty
from tests.fixtures.server import Server
from tests.support.business import business_at


@pytest.fixture(scope="package")
def broker(server: Server, databases: Databases, template: str) -> Iterator[str]:
    """DSN of the broker that the tests share, one after the other."""
    name = databases.create(template)
    with psycopg.connect(server.dsn(name)) as connection:
        connection.execute("update mqpg.broker set broker_id = default")
    yield server.dsn(name)
    databases.drop(name)


@pytest.fixture
def dsn(broker: str) -> str:
    """DSN of an empty broker."""
    empty(broker)
    return broker


@pytest.fixture
def mq(dsn: str) -> Iterator[mqpg.Client]:
    """A client of this test's broker."""
    with mqpg.connect(dsn, retry_timeout=5) as client:
        yield client


@pytest.fixture
async def amq(dsn: str) -> AsyncIterator[mqpg.AsyncClient]:
    """An asynchronous client of the same broker."""
    async with await mqpg.connect_async(dsn, retry_timeout=5) as client:
        yield client


@pytest.fixture(scope="package")
def business_database(server: Server, databases: Databases) -> Iterator[str]:
    """DSN of a PostgreSQL database of the user's."""
    name = databases.create()
    yield server.dsn(name)
    databases.drop(name)


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
