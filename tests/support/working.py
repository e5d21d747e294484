"""Workers in a thread, a session that does the work of all of them, and what stops it from making tables."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from mqpg.workers.worker import Options
from tests.support.waiting import PATIENCE

__all__ = ["NO_DDL", "at_work", "working"]

NO_DDL = (
    "create function stop() returns event_trigger language plpgsql as 'begin raise ''no DDL''; end'; "
    "create event trigger stop on ddl_command_start execute function stop(); "
    "update mqpg.settings set value = '9' where name = 'segments_ahead'"
)


@contextmanager
def at_work(role: Callable[..., Any], options: Options, **more: Any) -> Iterator[Any]:
    """A worker in a thread, until the block ends."""
    stop = threading.Event()
    worker = role(options, stop, **more)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()


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
