"""Fixtures for tests of programs that use mqpg, on a real PostgreSQL and without test doubles.

In the `conftest.py` of your tests' root folder::

    pytest_plugins = ["mqpg.testing"]

and in a test::

    def test_billing(mqpg_client):
        mqpg_client.create_topic("orders")
        mqpg_client.send("orders", {"id": 7})
        mqpg.testing.drain(mqpg_client, bill)  # bill: your @mqpg.consumer
        ...

The fixtures:

- `mqpg_server`: one PostgreSQL server for the run, that of MQPG_TEST_DSN or else an embedded one;
- `mqpg_databases`: creates more databases, for tests that need several brokers;
- `mqpg_dsn`: a fresh database for each test, copied from a migrated template;
- `mqpg_client`: a client of that database;
- `mqpg_async_client`: an asynchronous one, if pytest-asyncio is installed.

They need pytest, and `mqpg[embedded]` unless MQPG_TEST_DSN names a server.
"""

from __future__ import annotations

from mqpg.testing.draining import adrain, drain
from mqpg.testing.fixtures import mqpg_client, mqpg_databases, mqpg_dsn, mqpg_server

__all__ = ["adrain", "drain", "mqpg_client", "mqpg_databases", "mqpg_dsn", "mqpg_server"]

try:
    from mqpg.testing.asynchronous import mqpg_async_client
except ModuleNotFoundError as error:
    if error.name != "pytest_asyncio":
        raise
else:
    __all__ += ["mqpg_async_client"]
