"""What asyncpg does behind SQLAlchemy is SQLAlchemy's: the names of prepared statements, and the errors."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mqpg._async.stores.database import UserDatabase
from mqpg._async.stores.ledger import AsyncLedger


class Asyncpg:
    """A connection of SQLAlchemy in a transaction of asyncpg that the next statement ends with 40001."""

    closed = invalidated = _has_events = False
    dialect = SimpleNamespace(driver="asyncpg")
    engine = SimpleNamespace(_has_events=False)

    def __init__(self) -> None:
        self.sqlstates = ["25P02", "40001"]
        self.sync_connection = self.connection = self.driver_connection = self

    def in_transaction(self) -> bool:
        return True

    def get_execution_options(self) -> dict[str, Any]:
        return {}

    async def fetch(self, *_: Any) -> list[Any]:
        raise RuntimeError(self.sqlstates.pop())

    async def execute(self, *_: Any) -> list[Any]:
        raise LookupError(self.sqlstates.pop())


def test_the_look_for_the_ledger_row_of_asyncpg_says_a_serialization_failure() -> None:
    """A caller who repeats transactions must know it. After it each statement fails with 25P02."""
    database: Any = SimpleNamespace(dialect="postgresql", schema=None)
    database.execute = lambda *args: UserDatabase.execute(database, *args)
    ledger: Any = SimpleNamespace(database=database)
    conn: Any = Asyncpg()
    with pytest.raises(LookupError, match="40001"):
        asyncio.run(AsyncLedger.surviving_rows(ledger, conn, ["handle"]))
