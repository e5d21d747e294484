"""Fixtures of the failure tests.

All tests share the stage's databases, which are emptied between them.
"""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

import mqpg
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from tests.failures.stage import SHOP_TABLES, CrashingStage, Stage
from tests.fixtures.databases import Databases
from tests.fixtures.emptying import empty
from tests.support.broker import Spare
from tests.support.losing import UNFLUSHED
from tests.support.servers import temporary_server
from tests.support.standby import Pair, replicated


@pytest.fixture(scope="session")
def stage_spare(databases: Databases, template: str) -> Iterator[Spare]:
    with databases.lent(template) as dsn, closing(Spare(dsn)) as spare:
        yield spare


@pytest.fixture(scope="session")
def shop_database(databases: Databases) -> Iterator[str]:
    with databases.lent() as dsn:
        yield dsn


@pytest.fixture
def shop_dsn(shop_database: str) -> str:
    """The shop's own database, with tables for what producers and consumers do."""
    with psycopg.connect(shop_database) as conn:
        conn.execute("drop schema public cascade; create schema public")
        conn.execute(SHOP_TABLES)
    return shop_database


@pytest.fixture
def stage(stage_spare: Spare, shop_dsn: str) -> Iterator[Stage]:
    """A broker and a shop. After the test the broker as a whole must be consistent."""
    with stage_spare.borrowed() as conn:
        empty(conn)
    made = Stage(stage_spare.dsn, shop_dsn, stage_spare)
    try:
        yield made
        made.consistent()
    finally:
        made.close()


@pytest.fixture
def here(stage: Stage) -> Stage:
    """A stage whose business is in the broker's database and uses SQL only."""
    stage.sell_here()
    return stage


@pytest.fixture(scope="session")
def crashing_server() -> Iterator[EmbeddedServer]:
    """One server for all tests that crash it."""
    with temporary_server(settings=UNFLUSHED) as server:
        migrate.upgrade(server.create_database("broker"))
        yield server


@pytest.fixture
def crashing(crashing_server: EmbeddedServer, shop_dsn: str) -> Iterator[CrashingStage]:
    """A broker whose server can be crashed, and a shop whose server stays up."""
    dsn = crashing_server.dsn("broker")
    with psycopg.connect(dsn, autocommit=True) as conn:
        empty(conn)
    made = CrashingStage(Stage(dsn, shop_dsn), crashing_server)
    try:
        yield made
        made.stage.consistent()
    finally:
        made.stage.close()


@pytest.fixture
def pair(broker_server: EmbeddedServer) -> Iterator[Pair]:
    """A primary with the database `broker`, and its synchronous standby."""
    with replicated(broker_server) as made:
        yield made


@pytest.fixture
def own_stage(dsn: str, shop_dsn: str) -> Iterator[Stage]:
    """A stage on a broker for this test alone, so that it may drop segments or change functions."""
    made = Stage(dsn, shop_dsn)
    yield made
    made.close()


@pytest.fixture
def fast(stage: Stage) -> Iterator[mqpg.protocols.OutboxProducer]:
    """The producer that recovers after the killed one."""
    with stage.stored() as producer:
        yield producer
