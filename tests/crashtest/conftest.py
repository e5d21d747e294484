"""Crash tests of the handlers and producers in `apps`, on the server of the test run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqpg.crashtest.fork_server import ForkServer
from mqpg.crashtest.options import Options, Result
from mqpg.crashtest.run import try_in
from mqpg.crashtest.scratch import Scratch
from tests.fixtures.server import Server

APPS = Path(__file__).with_name("apps")
MESSAGES = ('{"id": 7}',)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A fork server that crash tests use one after another."""
    with ForkServer(Options.jobs) as started:
        yield started


@pytest.fixture
def crash(server: Server, template: str, fork_server: ForkServer) -> Callable[..., Result]:
    """Try a target of `apps`. SQL files are found there too."""

    def tried(target: str, *setups: str, folder: Path = APPS, **options: Any) -> Result:
        found = tuple(str(APPS / name) if name.endswith(".sql") else name for name in setups)
        given: dict[str, Any] = {
            "messages": MESSAGES,
            "points": 6,
            "modules": str(folder),
            "patience": 60.0,
        }
        with Scratch(server.dsn(), template) as scratch:
            return try_in(scratch, fork_server, Options(target, setups=found, **(given | options)))

    return tried
