"""CPU time of append and receive with one segment and with many, on two databases of one server.

The time is what the server process was on a CPU (/proc/PID/schedstat), so the server must run on
this machine. Calls alternate between the databases. The first one has the segments of a new
database, the other as many as `--segments` says. The script creates and drops both.

    python tools/cost_of_segments.py DSN --segments 31 --rounds 8 --calls 150
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from mqpg import migrate

_SEGMENTS = """
select least(count(*) filter (where family = 'log'), count(*) filter (where family = 'tick'))
from mqpg.segment where dropped_at is null
"""
_CASES = ("append", 1), ("append", 100), ("receive", 1), ("receive", 100), ("empty receive", 1)


class Side:
    """One database with a topic of 4 queues, a producer, an appender and a consumer.

    Args:
        dsn: The database, which is empty.
        segments: How many segments of log and ticks to make; 0 leaves those of a new database.
    """

    def __init__(self, dsn: str, segments: int) -> None:
        migrate.upgrade(dsn)
        self.producer, self.appender, self.consumer = (
            psycopg.connect(dsn, autocommit=True, prepare_threshold=0) for _ in range(3)
        )
        self.query("select mqpg.create_topic('t', 4, '365 days')")
        self.query("select mqpg.subscribe('g', 't')")
        self.query("update mqpg.settings set value = '1000' where name = 'segments_most'")
        while self.query(_SEGMENTS)[0][0] < segments:
            self.query("select mqpg.send('t', '{}') from generate_series(1, 2)")
            self.query("select mqpg.append()")
            for age in ("0 s", "1 day"):
                self.query("update mqpg.settings set value = %s where name = 'segment_age'", age)
                self.query("select * from mqpg.keep()")

    def query(self, sql: LiteralString, *args: object) -> list[Any]:
        """Execute a statement of the producer and return its rows."""
        cursor = self.producer.execute(sql, args)
        return cursor.fetchall() if cursor.description else []

    def prepare(self, case: str, size: int, calls: int) -> None:
        """Have ready what so many calls need."""
        self.query("select mqpg.append()")
        self.query("select mqpg.seek('g', 't', 'latest')")
        if case == "receive" and size == 1:
            self.query("select count(mqpg.send('t', '{}'::text)) from generate_series(1, %s)", calls)
        elif case == "receive":
            for _ in range(calls):
                self.send(size)
        self.query("select mqpg.append()")
        if case == "empty receive":
            self.query("select mqpg.seek('g', 't', 'latest')")

    def send(self, size: int) -> None:
        """Send a batch of so many messages."""
        self.query("select count(*) from mqpg.send_batch('t', array_fill('{}'::text, array[%s]))", size)

    def call(self, case: str, size: int) -> int:
        """Make one call and return its CPU time in ns."""
        if case == "append":
            self.send(size)
            spent, rows = _timed(self.appender, "select mqpg.append()")
            assert rows == [(size,)]
            return spent
        spent, rows = _timed(self.consumer, "select receipt from mqpg.receive('g', 't', %s)", size)
        assert bool(rows) == (case == "receive")
        if rows:
            self.consumer.execute("select mqpg.ack(%s)", rows[0])
        return spent


def _cpu(conn: psycopg.Connection[Any]) -> int:
    return int(Path(f"/proc/{conn.info.backend_pid}/schedstat").read_text().split()[0])


def _timed(conn: psycopg.Connection[Any], sql: LiteralString, *args: object) -> tuple[int, list[Any]]:
    before = _cpu(conn)
    rows = conn.execute(sql, args).fetchall()
    return _cpu(conn) - before, rows


def measure(sides: list[Side], case: str, size: int, rounds: int, calls: int) -> tuple[list[float], float]:
    """Return the median CPU time of each side in µs, and the median ratio of the two."""
    times: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        sums = [0, 0]
        for side in sides:
            side.prepare(case, size, calls)
        for i in range(calls):
            for n in (0, 1) if i % 2 else (1, 0):
                sums[n] += sides[n].call(case, size)
        for n in (0, 1):
            times[n].append(sums[n] / calls / 1000)
    one, many = (t[1:] for t in times)  # the first round made the plans
    ratio = statistics.median(b / a for a, b in zip(one, many, strict=True))
    return [statistics.median(one), statistics.median(many)], ratio


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("dsn", help="a server, as a superuser who may create databases")
    parser.add_argument("--segments", type=int, default=31, help="segments of the second database")
    parser.add_argument("--rounds", type=int, default=8, help="rounds; the table has medians of them")
    parser.add_argument("--calls", type=int, default=150, help="calls in a round")
    options = parser.parse_args()
    names = ["mqpg_segments_one", "mqpg_segments_many"]
    with psycopg.connect(options.dsn, autocommit=True) as admin:
        for name in names:
            admin.execute(SQL("drop database if exists {} with (force)").format(Identifier(name)))
            admin.execute(SQL("create database {} encoding 'UTF8' template template0").format(Identifier(name)))
        try:
            dsns = [make_conninfo(options.dsn, dbname=name) for name in names]
            sides = [Side(dsns[0], 0), Side(dsns[1], options.segments)]
            print(f"| call | one segment | {options.segments} segments | ratio |\n|---|---|---|---|")
            for case, size in _CASES:
                (one, many), ratio = measure(sides, case, size, options.rounds, options.calls)
                print(f"| {case} ×{size} | {one:.0f} µs | {many:.0f} µs | {ratio:.2f} |", flush=True)
        finally:
            for name in names:
                admin.execute(SQL("drop database if exists {} with (force)").format(Identifier(name)))


if __name__ == "__main__":
    main()
