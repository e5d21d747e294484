"""The fixture that needs pytest-asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

import mqpg

__all__ = ["mqpg_async_client"]


@pytest_asyncio.fixture
async def mqpg_async_client(mqpg_dsn: str) -> AsyncIterator[mqpg.AsyncClient]:
    """An asynchronous client of this test's own broker. No worker runs: call `adrain` to append."""
    async with await mqpg.connect_async(mqpg_dsn) as client:
        yield client
