"""Processes under test, on a database of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Processes


@pytest.fixture
def processes(tmp_path: Path, dsn: str) -> Iterator[Processes]:
    """Starts processes that work on `dsn`."""
    made = Processes(tmp_path, dsn)
    yield made
    made.close()
    print(made.logs())
