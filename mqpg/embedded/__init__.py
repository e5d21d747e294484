"""Embedded PostgreSQL: `EmbeddedServer`, and `Home`, which is the folder of `mqpg up`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqpg.embedded.binaries import Binaries, find_binaries, from_distribution, from_wheel
    from mqpg.embedded.home import Home
    from mqpg.embedded.locate import running_dsn
    from mqpg.embedded.server import EmbeddedServer, StopMode

__all__ = [
    "Binaries",
    "EmbeddedServer",
    "Home",
    "StopMode",
    "find_binaries",
    "from_distribution",
    "from_wheel",
    "running_dsn",
]

# Most programs have a DSN and need `locate` only, so the server is loaded when it is first used.
_HOMES = {
    "mqpg.embedded.binaries": ("Binaries", "find_binaries", "from_distribution", "from_wheel"),
    "mqpg.embedded.home": ("Home",),
    "mqpg.embedded.locate": ("running_dsn",),
    "mqpg.embedded.server": ("EmbeddedServer", "StopMode"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mqpg.embedded' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value
