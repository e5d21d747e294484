"""Fixtures of the whole suite; the servers are in tests/fixtures."""

import os
import signal
import tempfile

from tests.support.memory import MEMORY, has_room

pytest_plugins = [
    "tests.fixtures.server",
    "tests.fixtures.databases",
    "tests.fixtures.reused",
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

# A commit of SQLite takes thousands of times as long on a disk. Only a crash of the machine would tell.
if "TMPDIR" not in os.environ and has_room():
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
