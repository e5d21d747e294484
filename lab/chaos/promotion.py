"""A promotion of a broker, and a kill in the middle of the `adopt()` that has to follow.

The server breaks off, starts again as a standby of nobody, and is promoted. It is then on another
timeline of the same data, as after a failover to a synchronous standby. Its appender refuses until
`adopt()` has been called.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg

from mqpg.embedded import EmbeddedServer

from .moments import Interruption, interrupt
from .nodes import BrokerNode

__all__ = ["adopt_twice", "promote"]

_PATIENCE = 60.0  # seconds until the server answers after it was promoted
_INCARNATION = "select incarnation from mqpg.broker"


def promote(server: EmbeddedServer, dsn: str) -> None:
    """Let a server continue on a new timeline.

    Args:
        server: The server.
        dsn: One of its databases.
    """
    server.stop("immediate")
    data = server.directory / "pgdata"
    signal = data / "standby.signal"
    signal.touch()
    os.chown(signal, data.stat().st_uid, data.stat().st_gid)
    server.start()
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as conn:
                conn.execute("select pg_promote() where pg_is_in_recovery()")
                return
        except psycopg.OperationalError:  # it has just begun
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def adopt_twice(node: BrokerNode, dsn: str, folder: Path, interruption: Interruption) -> list[str]:
    """Promote a broker's server, kill in the middle of `adopt()`, and adopt it to the end.

    Args:
        node: The broker.
        dsn: The broker's DSN.
        folder: The folder of the log of the work.
        interruption: What to kill, and when.

    Returns:
        What was wrong afterwards, one line each.

    Raises:
        MomentMissed: `adopt()` was not seen under way within a minute.
    """
    before = _incarnation(dsn)
    promote(node.server, dsn)
    found = interrupt(node, dsn, folder, interruption)
    # A session whose client is gone ends its statement first, and commits.
    expected = (before + 1,) if interruption.target != "client" else (before + 1, before + 2)
    after = _incarnation(dsn)
    if after not in expected:
        found.append(f"incarnation {before} became {after} by an adopt() that was killed and one that was not")
    return found


def _incarnation(dsn: str) -> int:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as conn:
        (found,) = conn.execute(_INCARNATION).fetchone() or (0,)
        return int(found)
