"""Embedded PostgreSQL: `EmbeddedServer`, and `Home`, which is the folder of `mqpg up`."""

from __future__ import annotations

from mqpg.embedded.binaries import Binaries, find_binaries, from_distribution, from_wheel
from mqpg.embedded.home import Home, running_dsn
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
