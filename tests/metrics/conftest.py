"""A broker for one test alone, and what scrapes it."""

from collections.abc import Iterator

import pytest

from mqpg.status import Source
from tests.support.broker import Broker, Session


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A session at a broker for this test alone."""
    return broker.session()


@pytest.fixture
def source(dsn: str) -> Iterator[Source]:
    """What a scrape reads the broker by."""
    made = Source(dsn, "test")
    yield made
    made.close()
