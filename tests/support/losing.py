"""A crash of PostgreSQL that takes away all WAL that no backend flushed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from tests.support.waiting import eventually

__all__ = ["UNFLUSHED", "losing_the_unflushed"]

# Settings of a server whose other processes flush nothing either.
UNFLUSHED = {"bgwriter_lru_maxpages": 0, "autovacuum": "off"}


@contextmanager
def losing_the_unflushed(dsn: str) -> Iterator[None]:
    """Crash the server at the end of the block, and wait until it has recovered.

    During the block its WAL writer is frozen by SIGSTOP. A commit is then on disk only where its own backend, or a later
    one, waited for that. At the end the WAL writer gets SIGKILL, so PostgreSQL ends all backends, throws its shared memory
    away and recovers from the WAL on disk.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute("select pid from pg_stat_activity where backend_type = 'walwriter'").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(row[0], signal.SIGKILL)
            eventually(lambda: _cut(conn))
    eventually(lambda: _answers(dsn))


def _cut(conn: psycopg.Connection) -> bool:
    with suppress(psycopg.OperationalError):
        conn.execute("select 1")
    return conn.closed


def _answers(dsn: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(dsn):
        return True
    return False
