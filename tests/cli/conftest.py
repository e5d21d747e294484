"""A broker that the tests of the commands have one after the other."""

import pytest

from tests.fixtures.reused import Reused


@pytest.fixture
def dsn(reused: Reused) -> str:
    """DSN of a migrated database that other tests had before."""
    return reused.take().dsn
