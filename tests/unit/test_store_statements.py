"""Statements over mqpg's tables that asyncpg itself runs, which is not installed for the tests."""

import asyncio
from types import SimpleNamespace
from typing import Any

from mqpg._async.stores import ledger


class Asyncpg:
    """A connection of SQLAlchemy in a transaction of asyncpg, and that of asyncpg in it."""

    closed = invalidated = _has_events = False
    dialect = SimpleNamespace(driver="asyncpg")
    engine = SimpleNamespace(_has_events=False)

    def __init__(self, answer: list[Any] | Exception) -> None:
        self.answer, self.asked = answer, list[Any]()
        self.sync_connection = self.connection = self.driver_connection = self

    def in_transaction(self) -> bool:
        return True

    def get_execution_options(self) -> dict[str, Any]:
        return {}

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        self.asked.append((query, values))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def execute(self, clause: Any, values: Any) -> list[Any]:
        self.asked.append("SQLAlchemy")
        return []


def rows(conn: Any, schema: str | None = None) -> list[Any]:
    return list(asyncio.run(ledger._BY_ARRAY.rows(conn, {"chosen": ["h"]}, schema)))


def test_asyncpg_looks_for_the_ledger_row_without_the_detour_of_sqlalchemy() -> None:
    conn = Asyncpg([("h", None)])
    assert rows(conn, "shop") == [("h", None)]
    ((query, values),) = conn.asked
    assert "FROM shop.mqpg_ledger" in query
    assert query.endswith("= ANY ($1::TEXT[])")
    assert values == (["h"],)


def test_of_an_error_of_asyncpg_sqlalchemy_says_what_is_wrong() -> None:
    conn = Asyncpg(RuntimeError("current transaction is aborted"))
    assert rows(conn) == []
    assert conn.asked[1:] == ["SQLAlchemy"]
