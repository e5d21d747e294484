"""A dashboard of a busy broker, asked over HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from starlette.testclient import TestClient

import mqpg.web
from mqpg.schema.copies import settle_in
from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.support.broker import Broker, Session
from tests.web.story import Operator, Story, log_in, password_file, visiting


@pytest.fixture(scope="module")
def told(databases: Databases, template: str) -> Iterator[tuple[str, Story]]:
    """The name of a database where the story has happened, and the story. Tests get copies."""
    with databases.lent(template) as dsn:
        broker = Broker(dsn)
        story = Story(broker.session())
        broker.close()
        yield str(conninfo_to_dict(dsn)["dbname"]), story


@pytest.fixture
def dsn(request: pytest.FixtureRequest, server: Server, databases: Databases) -> Iterator[str]:
    """DSN of a broker for this test alone. The story has happened there if the test asks for it."""
    if "story" not in request.fixturenames:
        yield request.getfixturevalue("new_database")()
        return
    name = databases.copy(request.getfixturevalue("told")[0])
    with psycopg.connect(server.dsn(name)) as connection:
        settle_in(connection)  # the same broker, moved, so that the story's handles are its own
        connection.execute("update mqpg.worker set seen_at = clock_timestamp()")
    yield server.dsn(name)
    databases.drop(name)


@pytest.fixture
def mq(dsn: str) -> Iterator[Session]:
    """A session at a broker for this test alone."""
    broker = Broker(dsn)
    yield broker.session()
    broker.close()


@pytest.fixture
def story(told: tuple[str, Story]) -> Story:
    return told[1]


@pytest.fixture
def visitor(dsn: str, story: Story) -> Iterator[TestClient]:
    """Somebody who only reads, without a login."""
    with visiting(dsn) as client:
        yield client


@pytest.fixture(scope="module")
def shown(server: Server, databases: Databases, told: tuple[str, Story]) -> Iterator[tuple[str, TestClient]]:
    """The name of a copy that no test changes, and its dashboard."""
    name = databases.copy(told[0])
    with psycopg.connect(server.dsn(name)) as connection:
        settle_in(connection)
    with visiting(server.dsn(name)) as client:
        yield name, client
    databases.drop(name)


@pytest.fixture
def reader(server: Server, shown: tuple[str, TestClient]) -> TestClient:
    """As `visitor`, for tests that change nothing. They share the broker and its sessions."""
    name, client = shown
    with psycopg.connect(server.dsn(name)) as connection:
        connection.execute("update mqpg.worker set seen_at = clock_timestamp()")
    client.cookies.clear()
    return client


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords in this process in a moment instead of a quarter of a second. Commands take their time."""
    monkeypatch.setattr("mqpg.web.passwords._LOG_ROUNDS", 4)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A password file with the users ada, bob and eve."""
    return password_file(tmp_path)


@pytest.fixture
def operators(dsn: str, story: Story, users: Path) -> Iterator[Callable[..., Operator]]:
    """Makes people who have logged in at one dashboard: `operators("ada")`."""
    app = mqpg.web.app(dsn, password_file=users, actions=True)
    clients: list[TestClient] = []

    def make(name: str = "ada") -> Operator:
        client = TestClient(app, "http://localhost", follow_redirects=False)
        clients.append(client)
        assert log_in(client, name) == 303
        return Operator(client)

    yield make
    for client in clients:
        client.close()
    app.state.site.source.close()


@pytest.fixture
def operator(operators: Callable[..., Operator]) -> Operator:
    return operators()
