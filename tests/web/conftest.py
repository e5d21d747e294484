"""A dashboard of a busy broker, asked over HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import mqpg.web
from tests.support.broker import Broker, Session
from tests.web.story import Operator, Story, log_in, password_file


@pytest.fixture
def mq(dsn: str) -> Iterator[Session]:
    """A session at a broker for this test alone."""
    broker = Broker(dsn)
    yield broker.session()
    broker.close()


@pytest.fixture
def story(mq: Session) -> Story:
    return Story(mq)


@pytest.fixture
def visitor(dsn: str, story: Story) -> Iterator[TestClient]:
    """Somebody who only reads, without a login."""
    app = mqpg.web.app(dsn)
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        yield client
    app.state.site.source.close()


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
