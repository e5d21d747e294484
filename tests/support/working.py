"""A session that does the work of the worker processes, and what stops it from making tables."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.support.waiting import PATIENCE

__all__ = ["NO_DDL", "working"]

NO_DDL = (
    "create function stop() returns event_trigger language plpgsql as 'begin raise ''no DDL''; end'; "
    "create event trigger stop on ddl_command_start execute function stop(); "
    "update mqpg.settings set value = '9' where name = 'segments_ahead'"
)


@contextmanager
def working(dsn: str) -> Iterator[list[str]]:
    """One session that works until the block ends; its warnings."""
    said: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))

        def call() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                conn.execute("call mqpg.work(%s)", (10 * PATIENCE,))

        thread = threading.Thread(target=call)
        thread.start()
        try:
            yield said
        finally:
            conn.cancel()
            thread.join()
