"""keep() drops no message of a topic that asks for the archive before it is archived."""

from pathlib import Path
from typing import Any

import pytest

from mqpg.archive.run import archive
from tests.archive.segments import count, fill, noted
from tests.support.broker import Session, refused
from tests.support.retention import dropped, keep, pass_time, retain, roll

PARTS = ("commit_log_1", "op_log_1", "consume_queue_1", "tick_1", "delayed_1")
WAITS = "waits for the archive"


@pytest.fixture
def expired(mq: Session) -> Session:
    """Retention is over at once. Decisions are kept as long as bodies."""
    mq.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    return mq


def expire(mq: Session) -> list[tuple[str, str, int | None, str]]:
    """Drop what may go, as the calls of keep() say."""
    retain(mq, "1 minute")
    pass_time(mq, "2 hours")
    reported = keep(mq, 60)
    retain(mq, "1 day")
    return reported


def left(mq: Session, table: str) -> int:
    return int(mq.scalar(f"select count(*) from mqpg.{table}"))


def test_what_no_topic_asks_for_is_dropped(expired: Session) -> None:
    fill(expired, "other")
    reported = expire(expired)
    assert {"commit_log_1", "op_log_1", "consume_queue_1", "tick_1"} <= dropped(reported)
    assert not [row for row in reported if WAITS in row[3] and row[1] != "cursor"]


def test_keep_waits_and_says_so(expired: Session, dsn: str, tmp_path: Path) -> None:
    fill(expired)
    before = {table: left(expired, table) for table in ("commit_log", "op_log", "consume_queue", "cursor")}
    reported = expire(expired)
    assert not dropped(reported) & {"commit_log_1", "op_log_1", "consume_queue_1", "tick_1", "cursor_1"}
    assert {row[1] for row in reported if row[0] == "blocked" and WAITS in row[3]} >= {"log", "tick", "cursor"}
    assert {table: left(expired, table) for table in before} == before
    view = expired.rows("select family, table_name, state, blocked_by from mqpg.blocked_segments")
    assert {(row.family, row.state) for row in view} >= {("log", "archive"), ("tick", "archive")}
    assert all(row.blocked_by == [] for row in view if row.state == "archive")
    archive(tmp_path, dsn)
    assert {"commit_log_1", "op_log_1", "consume_queue_1", "tick_1"} <= dropped(expire(expired))
    assert not expired.rows("select from mqpg.blocked_segments where state = 'archive'")
    assert count(expired, "commit_log") >= 12


def test_a_topic_that_asks_no_longer_lets_go(expired: Session) -> None:
    fill(expired)
    expire(expired)
    assert left(expired, "consume_queue") > 0
    expired.call("alter_topic", "kept", archive=False)
    assert {"commit_log_1", "consume_queue_1"} <= dropped(expire(expired))


def test_a_topic_that_waits_for_the_archive_is_not_dropped(expired: Session, dsn: str, tmp_path: Path) -> None:
    fill(expired)
    with refused("MQ012", "not archived"):
        expired.call("drop_topic", "kept")
    archive(tmp_path, dsn)
    expired.call("drop_topic", "kept")


@pytest.mark.parametrize("how", ["force", "archive off"])
def test_the_archive_can_be_given_up(expired: Session, how: str) -> None:
    fill(expired)
    if how == "archive off":
        expired.call("alter_topic", "kept", archive=False)
    expired.call("drop_topic", "kept", force=how == "force")


def test_decisions_wait_for_their_own_files(expired: Session, dsn: str, tmp_path: Path) -> None:
    """An undecided half message outlives its segment, whose bodies are archived and dropped before."""
    half = expired.scalar("select mqpg.prepare('kept', '1'::text, 'pg')")
    fill(expired)
    archive(tmp_path, dsn)
    assert count(expired, "op_log") == 0
    assert "commit_log_1" in dropped(expire(expired))
    held = expired.rows("select message_id from mqpg.held")
    assert held
    expired.execute("select mqpg.rollback(%s)", half)
    expired.execute("delete from pgmq.q_mqpg_oplog")  # the compensator does it when the check is due
    assert "op_log_1" not in dropped(expire(expired))
    archive(tmp_path, dsn)
    assert count(expired, "op_log") >= 2
    assert "op_log_1" in dropped(expire(expired))
    ids = archived_ids(expired, tmp_path)
    assert {row.message_id for row in held} <= ids


def archived_ids(mq: Session, folder: Path) -> set[int]:
    import pyarrow.parquet

    found: set[int] = set()
    for row in noted(mq):
        if row.table_name == "commit_log":
            for batch in pyarrow.parquet.read_table(folder / row.location).to_pylist():
                found |= {batch["batch_id"] * 1024 + place for place in range(batch["n"])}
    return found


def test_a_merge_leaves_nothing_out_before_it_is_archived(expired: Session, dsn: str, tmp_path: Path) -> None:
    for name, value in (("segments_most", "4"), ("merge_waste", "0")):
        expired.execute("update mqpg.settings set value = %s where name = %s", value, name)
    expired.call("create_topic", "long", queues=1, retention="365 days")
    sent: set[int] = set()
    for _ in range(6):
        sent |= {expired.send("kept", "1"), expired.send("kept", "2")}
        expired.send("long", "1")
        expired.append()
        for row in expired.rows("select * from mqpg.receive('g', 'kept', 100)")[:1]:
            expired.execute("select mqpg.ack(%s)", row.receipt)
        roll(expired)
        retain(expired, "1 minute", "kept")
        pass_time(expired, "2 hours")
        keep(expired, 100)
        retain(expired, "1 day", "kept")
    merged(expired)
    held: Any = expired.scalar("select array_agg(x) from (select unnest(left_out) as x from mqpg.segment) u")
    topic = expired.scalar("select topic_id from mqpg.topic where name = 'kept'")
    assert topic not in (held or [])
    stored = {row[0] * 1024 for row in expired.rows("select batch_id from mqpg.commit_log where topic_id = %s", topic)}
    assert sent <= stored
    archive(tmp_path, dsn)
    closed = expired.rows(
        "select upper_bound::bigint * 1024 from mqpg.segment where family = 'log' and closed_at is not null"
    )
    end = max(row[0] for row in closed)
    assert {one for one in sent if one < end} <= archived_ids(expired, tmp_path)


def merged(mq: Session) -> None:
    for _ in range(200):
        retain(mq, "1 minute", "kept")
        keep(mq, 20)
        retain(mq, "1 day", "kept")
        if mq.scalar("select count(*) from mqpg.segment where merged_at is not null and family = 'log'"):
            return
    raise AssertionError(mq.rows("select * from mqpg.segment"))


def test_a_topic_that_asks_during_a_merge_stops_it(expired: Session) -> None:
    expired.call("alter_topic", "kept", archive=False)
    for name, value in (("segments_most", "1000"), ("merge_waste", "1000000000")):
        expired.execute("update mqpg.settings set value = %s where name = %s", value, name)
    expired.call("create_topic", "long", queues=1, retention="365 days")
    for _ in range(6):
        expired.send("kept", "1")
        expired.send("long", "1")
        expired.append()
        for row in expired.rows("select * from mqpg.receive('g', 'kept', 100)")[:1]:
            expired.execute("select mqpg.ack(%s)", row.receipt)
        roll(expired)
        pass_time(expired, "2 hours")
    before = left(expired, "commit_log")
    expired.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    expired.execute("update mqpg.topic set retention = '1 minute' where name = 'kept'")
    topic = expired.scalar("select topic_id from mqpg.topic where name = 'kept'")
    for _ in range(100):
        expired.call("keep")
        if expired.rows("select from mqpg.segment_merge where family = 'log' and %s = any(topic_ids)", topic):
            break
    else:
        raise AssertionError("no merge leaves the topic out")
    expired.call("alter_topic", "kept", archive=True)
    reported = keep(expired, 200)
    assert [row for row in reported if "merge given up" in row[3]]
    assert left(expired, "commit_log") == before
