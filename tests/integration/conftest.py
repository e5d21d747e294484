"""Fixtures of the library's tests: topics, and databases of a producer and of a consumer."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

import mqpg
from tests.fixtures.reused import Reused
from tests.support.business import business_at


@pytest.fixture
def dsn(request: pytest.FixtureRequest) -> str:
    """DSN of a migrated database of this test's own; with the mark `shared_database` of one that others had before."""
    if request.node.get_closest_marker("shared_database"):
        reused: Reused = request.getfixturevalue("reused")
        return reused.take().dsn
    new: str = request.getfixturevalue("new_database")()
    return new


@pytest.fixture(params=["postgresql", "sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb)])
def local_url(request: pytest.FixtureRequest, new_database: Callable[..., str], tmp_path: Path) -> str:
    """The SQLAlchemy URL of an empty user database, of each kind."""
    if request.param == "mariadb":
        return str(request.getfixturevalue("mariadb_url"))
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'local.db'}"
    return new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.fixture
def engine(local_url: str) -> Iterator[Engine]:
    """An engine for it, with a table `business (id)` that may hold an id twice."""
    with business_at(local_url, "id int") as engine:
        yield engine


@pytest.fixture
def topic(mq: mqpg.Client) -> str:
    """A topic of one queue."""
    mq.create_topic("orders", queues=1)
    return "orders"


@pytest.fixture
def billing(mq: mqpg.Client, topic: str) -> str:
    """A group that reads it."""
    mq.subscribe("billing", topic)
    return "billing"


@pytest.fixture
def orders(mq: mqpg.Client) -> str:
    """A topic with a producer group `shop`."""
    mq.create_topic("orders", queues=2)
    mq.create_producer_group("shop")
    return "orders"


@pytest.fixture
def finalized(new_database: Callable[..., str]) -> Iterator[None]:
    """Close what cancelled tasks were opening, before another test begins and before the databases are dropped.

    A session that waits for a password lets each drop wait until authentication_timeout.
    """
    yield
    gc.collect()
