"""Fixtures of the whole suite; the servers are in tests/fixtures."""

from __future__ import annotations

pytest_plugins = [
    "tests.fixtures.server",
    "tests.fixtures.databases",
    "tests.fixtures.mariadb",
    "tests.fixtures.seeds",
    "tests.fixtures.docker",
    "tests.fixtures.pgbouncer",
    "tests.fixtures.browser",
    "tests.fixtures.order",
]
