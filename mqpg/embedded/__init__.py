"""Embedded PostgreSQL: `EmbeddedServer`, and `Home`, which is the folder of `mqpg up`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqpg.embedded.home import Home
    from mqpg.embedded.locate import running_dsn
    from mqpg.embedded.programs import find_binaries
    from mqpg.embedded.server import EmbeddedServer, StopMode

__all__ = ["EmbeddedServer", "Home", "StopMode", "find_binaries", "running_dsn"]


def __getattr__(name: str) -> Any:
    # Most programs have a DSN and need `locate` only, so the server is loaded when it is first used.
    if name in __all__:
        for module in ("home", "locate", "programs", "server"):
            found = import_module(f"mqpg.embedded.{module}")
            if name in found.__all__:
                return getattr(found, name)
    raise AttributeError(f"module 'mqpg.embedded' has no attribute {name!r}")
