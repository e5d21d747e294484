"""Fixtures of the trap tests. Each test has a database of its own, because it changes functions."""

import pytest

from tests.support.broker import Broker


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    return own_broker
