"""Topics of a day beside one of a year, through simulated time: partitions alive and bytes on disk.

The clock does not move. Instead the script moves the times in mqpg.segment back by the length of a
segment in each round, so that the keeper sees a round as so many hours. The script empties nothing:
give it a database for itself.

    python tools/simulated_year.py DSN --days 365 --topics 20
"""

from __future__ import annotations

import argparse
import json
from typing import Any, LiteralString

import psycopg

from mqpg import migrate

_SHIFT = """
update mqpg.segment set made_at = made_at - %(age)s::interval, opened_at = opened_at - %(age)s::interval,
    closed_at = closed_at - %(age)s::interval, body_dropped_at = body_dropped_at - %(age)s::interval,
    dropped_at = dropped_at - %(age)s::interval
"""
_SIZES = """
select (select sum(pg_table_size(i.inhrelid)) from pg_inherits i
     where i.inhparent = 'mqpg.commit_log'::regclass) as log,
    (select sum(pg_total_relation_size(i.inhrelid)) from pg_inherits i
     where i.inhparent::regclass::text like 'mqpg.%%') as total,
    (select max(n) from (select count(*) as n from pg_inherits i
     where i.inhparent::regclass::text in ('mqpg.commit_log', 'mqpg.op_log', 'mqpg.consume_queue', 'mqpg.tick')
     group by i.inhparent) k) as partitions,
    (select count(*) from mqpg.segment) as segment_rows,
    (select coalesce(sum(n) filter (where topic_id = %(year)s), 0) from mqpg.commit_log) as year_messages,
    (select coalesce(sum(n) filter (where topic_id <> %(year)s), 0) from mqpg.commit_log) as day_messages
"""


class Simulation:
    """One broker with topics `day0`, `day1`, … and `year`, each read by the group `g`.

    Args:
        dsn: The database, empty or migrated.
        options: The options of the command line.
    """

    def __init__(self, dsn: str, options: argparse.Namespace) -> None:
        migrate.upgrade(dsn)
        self.options = options
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.rewritten = 0
        self.topics = [f"day{i}" for i in range(options.topics)] + ["year"]
        for topic in self.topics:
            retention = "1 day" if topic != "year" else "365 days"
            self.query("select mqpg.create_topic(%s, 1, %s)", topic, retention)
            self.query("select mqpg.subscribe('g', %s)", topic)
        self.set("segment_age", "0 s")
        self.set("merge_waste", str(options.merge_waste))
        self.set("op_log_keep", "0 s")
        self.set("segments_most", str(options.segments_most))

    def query(self, sql: LiteralString, *args: Any) -> list[Any]:
        """Run one statement and return its rows."""
        cursor = self.conn.execute(sql, args)
        return cursor.fetchall() if cursor.description else []

    def set(self, name: str, value: str) -> None:
        """Change a setting of the broker."""
        self.query("update mqpg.settings set value = %s where name = %s", value, name)

    def round(self) -> None:
        """Let the time of one segment pass: sends, deliveries, and the keeper's work."""
        payload = json.dumps("x" * self.options.bytes)
        for topic in self.topics:
            self.query(
                "select mqpg.send_batch(%s, array_fill(%s::text, array[%s]))", topic, payload, self.options.messages
            )
        self.query("select mqpg.append()")
        for topic in self.topics:
            rows = self.query("select receipt from mqpg.receive('g', %s, 10000) limit 1", topic)
            self.query("select mqpg.ack(%s)", rows[0][0])
        self.set("segment_age", "0 s")
        self.keep_once()
        self.set("segment_age", "100 years")
        with self.conn.transaction():
            self.conn.execute(_SHIFT, {"age": f"{self.options.hours} hours"})
        self.keep()

    def keep_once(self) -> bool:
        """Call keep() once and return whether it did something."""
        rows = self.query("select action, detail from mqpg.keep()")
        self.rewritten += sum(
            int(detail.split()[1]) for action, detail in rows if action == "merging" and "commit_log:" in detail
        )
        return any(action not in ("pinned", "blocked") for action, _ in rows)

    def keep(self) -> None:
        """Call keep() until nothing is left to do."""
        while self.keep_once():
            pass

    def sizes(self) -> dict[str, int]:
        """What is alive now."""
        year = self.query("select topic_id from mqpg.topic where name = 'year'")[0][0]
        cursor = self.conn.execute(_SIZES, {"year": year})
        names = [column.name for column in cursor.description or []]
        row = cursor.fetchone()
        assert row is not None
        return {name: int(value) for name, value in zip(names, row, strict=True)}


def main() -> None:
    """Run the simulation and print a line now and then."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dsn")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--hours", type=int, default=6, help="length of a segment")
    parser.add_argument("--topics", type=int, default=20, help="topics of a day beside the one of a year")
    parser.add_argument("--messages", type=int, default=50, help="messages of each topic in a segment")
    parser.add_argument("--bytes", type=int, default=1000, help="bytes of a payload")
    parser.add_argument("--merge-waste", type=int, default=100000)
    parser.add_argument("--segments-most", type=int, default=28, help="a great number: no merging")
    options = parser.parse_args()
    simulation = Simulation(options.dsn, options)
    rounds = options.days * 24 // options.hours
    most = 0
    for i in range(1, rounds + 1):
        simulation.round()
        found = simulation.sizes()
        most = max(most, found["partitions"])
        if i % max(rounds // 20, 1) == 0 or i == rounds:
            rows = simulation.rewritten / i
            print(f"day {i * options.hours / 24:5.0f}  {found}  rows copied a segment {rows:.1f}", flush=True)
    print(f"most partitions of a table at any time: {most}")


if __name__ == "__main__":
    main()
