"""A server with PostgreSQL's own max_locks_per_transaction is enough for many consumers."""

import contextlib

import psycopg
import pytest

from mqpg import migrate
from tests.support.servers import temporary_server


@pytest.mark.waits
def test_two_hundred_consumers_in_open_transactions_need_no_more_locks_than_a_stock_server_has() -> None:
    """Each has received in a transaction that stays open, beside 31 segments of log and of ticks."""
    settings = {"max_connections": "230", "fsync": "off"}
    with (
        temporary_server(settings=settings) as server,
        contextlib.ExitStack() as stack,
    ):
        dsn = server.create_database("mqpg")
        migrate.upgrade(dsn)
        conn = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        conn.execute("select mqpg.create_topic('t', 200, '365 days')")
        conn.execute("select mqpg.subscribe('g', 't')")
        conn.execute("update mqpg.settings set value = '1000' where name = 'segments_most'")
        while _segments(conn) < 31:
            conn.execute("select mqpg.send('t', '{}') from generate_series(1, 2)")
            conn.execute("select mqpg.append()")
            for age in ("0 s", "1 day"):
                conn.execute("update mqpg.settings set value = %s where name = 'segment_age'", (age,))
                conn.execute("select * from mqpg.keep()")
        conn.execute("select mqpg.send('t', '{}', key => i::text) from generate_series(1, 2000) as i")
        conn.execute("select mqpg.append()")
        got = 0
        for _ in range(200):
            consumer = stack.enter_context(psycopg.connect(dsn))
            got += len(consumer.execute("select * from mqpg.receive('g', 't', 1)").fetchall())
        assert got == 200
        assert conn.execute("select mqpg.append()").fetchone() is not None
        conn.execute("select mqpg.create_producer_group('p')")
        handle = conn.execute("select mqpg.prepare('t', '{}', 'p')").fetchone()
        assert handle is not None
        conn.execute("select mqpg.commit(%s)", handle)


def _segments(conn: psycopg.Connection) -> int:
    row = conn.execute(
        "select least(count(*) filter (where family = 'log'), count(*) filter (where family = 'tick'))"
        " from mqpg.segment where dropped_at is null"
    ).fetchone()
    assert row is not None
    return int(row[0])
