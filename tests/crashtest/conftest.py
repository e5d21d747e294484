"""Crash tests of the handlers and producers in `apps`, on the server of the test run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqpg.crashtest.options import Options, Result
from mqpg.crashtest.run import run
from tests.fixtures.server import Server

APPS = Path(__file__).with_name("apps")
MESSAGES = ('{"id": 7}',)


@pytest.fixture
def crash(server: Server) -> Callable[..., Result]:
    """Try a target of `apps`. SQL files are found there too."""

    def tried(target: str, *setups: str, folder: Path = APPS, **options: Any) -> Result:
        found = tuple(str(APPS / name) if name.endswith(".sql") else name for name in setups)
        given: dict[str, Any] = {
            "messages": MESSAGES,
            "points": 6,
            "dsn": server.dsn(),
            "modules": str(folder),
            "patience": 60.0,
        }
        return run(Options(target, setups=found, **(given | options)))

    return tried
