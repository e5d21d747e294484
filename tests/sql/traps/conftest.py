"""Trap tests change functions: each has a database of its own."""

from __future__ import annotations

import pytest

from tests.support.broker import Broker


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    return own_broker
