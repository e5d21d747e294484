"""Objects that hold connections and close them at the end of an `async with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

__all__ = ["AsyncClosing"]


class AsyncClosing(ABC):
    """An object whose `close` is called when its block ends."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Close the connections that belong to this object."""
