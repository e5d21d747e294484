"""Fixtures of the whole suite; the servers are in tests/fixtures."""

import signal

pytest_plugins = [
    "tests.fixtures.server",
    "tests.fixtures.databases",
    "tests.fixtures.clients",
    "tests.fixtures.commands",
    "tests.fixtures.mariadb",
    "tests.fixtures.seeds",
    "tests.fixtures.pgbouncer",
    "tests.fixtures.browser",
    "tests.fixtures.order",
    "tests.fixtures.recovery",
]

# A shell lets what runs in its background ignore SIGINT, and processes that tests interrupt would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
