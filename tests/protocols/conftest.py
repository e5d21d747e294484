"""Fixtures of the protocols' tests: a broker, and databases of a producer and of a consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

import mqpg


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


@pytest.fixture(params=["postgresql", "sqlite"])
def local_url(request: pytest.FixtureRequest, new_database: Callable[..., str], tmp_path: Path) -> str:
    """SQLAlchemy URL of an empty database of the user's, of both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'local.db'}"
    return new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.fixture
def engine(local_url: str) -> Iterator[Engine]:
    """An engine for it, with a table `business (id)`."""
    engine = create_engine(local_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id int primary key)"))
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    """As `engine`, SQLite only, for what does not depend on the database."""
    engine = create_engine(f"sqlite:///{tmp_path / 'business.db'}")
    with engine.begin() as conn:
        conn.execute(text("create table business (id int primary key)"))
    yield engine
    engine.dispose()
