# Generated from mqpg/_async/closing.py by tools/async_to_sync.py: change that file.
"""Objects that hold connections and close them at the end of an `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """An object whose `close` is called when its block ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the connections that belong to this object."""
