"""Filling and closing segments, and looking at the archive."""

from pathlib import Path
from typing import Any

from tests.support.broker import Session
from tests.support.retention import roll

__all__ = ["TABLES", "count", "digests", "fill", "noted", "parquet"]

TABLES = ("commit_log", "op_log", "consume_queue", "tick", "cursor", "delayed")


def fill(mq: Session, topic: str = "kept", messages: int = 10) -> None:
    """Send, decide, consume and acknowledge messages, and close the segments that hold them."""
    for number in range(messages):
        mq.send(topic, str(number), key=str(number))
    handle = mq.scalar("select mqpg.prepare(%s, '1'::text, 'pg')", topic)
    mq.execute("select mqpg.commit(%s)", handle)
    mq.execute("select mqpg.send(%s, '1'::text, delay => interval '1 microsecond')", topic)
    mq.append()
    consume(mq, topic)
    mq.execute("select mqpg._enqueue_halves_now('fill')")  # append() does it once a second
    roll(mq)
    mq.execute("select mqpg.send('other', '1'::text)")  # a tick in the next segment closes the one before
    mq.append()
    consume(mq, "other")
    roll(mq)


def consume(mq: Session, topic: str) -> None:
    while rows := mq.rows("select * from mqpg.receive('g', %s, 1000)", topic):
        mq.execute("select mqpg.ack(%s)", rows[0].receipt)


def noted(mq: Session) -> list[Any]:
    """The files that the broker knows."""
    return mq.rows("select * from mqpg.archived_segment order by table_name, lower_bound")


def count(mq: Session, table: str) -> int:
    """How many rows the archive has of a table."""
    return int(mq.scalar("select coalesce(sum(n), 0) from mqpg.archived_segment where table_name = %s", table))


def digests(mq: Session) -> list[tuple[str, str, str, int, int]]:
    """What the broker knows about the files, apart from their names and times."""
    return [(row.table_name, row.lower_bound, row.upper_bound, row.n, int(row.digest)) for row in noted(mq)]


def parquet(folder: Path) -> set[str]:
    """The files in the folder, relative to it, apart from the lock."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
