"""A broker whose standby no commit waits for, and the database of a producer and of a consumer."""

from collections.abc import Iterator

import psycopg
import pytest

import mqpg
from mqpg.embedded import EmbeddedServer
from tests.support.standby import Pair, asynchronous


@pytest.fixture
def pair(broker_server: EmbeddedServer) -> Iterator[Pair]:
    """A primary with the database `broker`, and a standby that no commit waits for."""
    with asynchronous(broker_server) as made:
        yield made


@pytest.fixture
def shop(empty_dsn: str) -> str:
    """The URL of the shop's database, with a ledger that keeps messages and the tables of its business."""
    url = empty_dsn.replace("postgresql://", "postgresql+psycopg://")
    with mqpg.Ledger(url) as ledger:
        ledger.create(keep_messages=True)
    with psycopg.connect(empty_dsn) as conn:
        conn.execute("create table effect (n int); create table sale (n int primary key)")
    return url
