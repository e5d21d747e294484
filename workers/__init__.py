"""The processes around the queue.

They are the appender, the compensator, the keeper, the supervisor of these three, and the runner of
consumers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .worker import Worker

__all__ = ["ROLES", "worker_of"]

ROLES = ("appender", "compensator", "keeper")


def worker_of(role: str) -> type[Worker]:
    """Return the class of a role.

    Its module is imported now, because a process has one role, and only the compensator needs SQLAlchemy.
    """
    found: type[Worker] = getattr(import_module(f".{role}", __name__), role.capitalize())
    return found
