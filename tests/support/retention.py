"""Retention under test: segments close and drop at once, and `mqpg.keep` reports it."""

import time
from typing import Any

from tests.support.broker import Session
from tests.support.waiting import eventually

__all__ = [
    "age",
    "aged",
    "dropped",
    "early_in_the_hour",
    "end_delayed_slot",
    "gone",
    "keep",
    "partitions",
    "pass_time",
    "payloads",
    "retain",
    "roll",
]


def retain(mq: Session, retention: str, topic: str | None = None) -> None:
    mq.execute("update mqpg.topic set retention = %s::interval where name = coalesce(%s, name)", retention, topic)
    # or a half may not be prepared
    mq.execute("update mqpg.producer_group set check_after = least('60 s', %s::interval)", retention)


def early_in_the_hour(mq: Session) -> None:
    """Make the slots of this time, and see to it that no hour and no day turns within the next 20 s.

    A call of keep() that makes a slot of dedup ids or of delayed messages does nothing else, and the template
    database may be of the hour or of the day before.
    """
    mq.execute("select pg_sleep_until(date_trunc('hour', clock_timestamp() + interval '20 s', 'UTC'))")
    mq.call("keep")


def age(mq: Session, value: str) -> None:
    """Set the age at which segments and cursor slots are closed."""
    mq.execute("update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')", value)


def keep(mq: Session, passes: int = 30) -> list[tuple[str, str, int | None, str]]:
    """Call keep() until it does nothing new, and return everything that it reported."""
    reported: list[tuple[str, str, int | None, str]] = []
    for _ in range(passes):
        rows = [tuple(row) for row in mq.call("keep")]
        reported += rows
        if all(row[0] in ("pinned", "blocked") for row in rows):
            return reported
    return reported


def aged(mq: Session) -> list[tuple[str, str, int | None, str]]:
    """Call keep() once while everything in use counts as old enough to be closed."""
    age(mq, "0 s")
    reported = [tuple(row) for row in mq.call("keep")]
    age(mq, "6 hours")
    return reported


def roll(mq: Session, *, closes: bool = True) -> list[tuple[str, str, int | None, str]]:
    """Close what is in use now, and drop what may be dropped.

    Closing waits for every transaction of the server.
    """
    reported = aged(mq) + keep(mq)
    while closes and any(row[:2] == ("opened", "log") for row in reported):
        opened = max(row[2] or 0 for row in reported if row[:2] == ("opened", "log"))
        if any(row[:3] == ("closed", "log", opened - 1) for row in reported):
            break
        time.sleep(0.05)
        reported += keep(mq)
    return reported


def dropped(reported: list[Any]) -> set[str]:
    return {row[3].split(",")[0] for row in reported if row[0] == "dropped"}


def gone(mq: Session, tables: set[str], reported: list[Any]) -> None:
    """Assert that these were dropped, or that further calls of keep() drop them.

    A call stops waiting after 100 ms.
    """
    left = tables - dropped(reported)

    def done() -> bool:
        left.difference_update(dropped(keep(mq)))
        return not left

    eventually(lambda: not left or done(), interval=0.05)


def pass_time(mq: Session, interval: str) -> None:
    """Let time pass for the segments: everything that happened to them happened that much earlier."""
    columns = ("made_at", "opened_at", "closed_at", "body_dropped_at", "dropped_at")
    moved = ", ".join(f"{column} = {column} - %(by)s::interval" for column in columns)
    mq.conn.execute(f"update mqpg.segment set {moved}", {"by": interval})


def partitions(mq: Session, parent: str) -> set[str]:
    rows = mq.rows(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = %s::regclass",
        f"mqpg.{parent}",
    )
    return {row.relname for row in rows}


def payloads(rows: list[Any]) -> list[Any]:
    return [row.payload for row in rows]


def end_delayed_slot(mq: Session) -> None:
    """End the first slot of delayed messages an hour ago, or earlier if its day is over by now."""
    mq.execute("update mqpg.settings set value = '100 ms' where name = 'delayed_slot'")
    mq.execute(
        "update mqpg.segment set upper_bound = to_char(least(upper_bound::timestamptz, clock_timestamp() - interval '1 h')"
        " at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') where family = 'delayed' and segment_no = 1"
    )
    bound = mq.scalar("select upper_bound from mqpg.segment where family = 'delayed' and segment_no = 1")
    mq.execute(
        "alter table mqpg.delayed detach partition mqpg.delayed_1;"
        # what was written after a midnight that came since the template database was made
        "with moved as (delete from mqpg.delayed returning *) insert into mqpg.delayed_1 select * from moved;"
        f"update mqpg.delayed_1 set written_at = '{bound}'::timestamptz - interval '1 h';"
        f"alter table mqpg.delayed attach partition mqpg.delayed_1 for values from ('-infinity') to ('{bound}')"
    )
