"""`mqpg archive`: every closed range once, verified, whatever happens in the middle."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pyarrow.parquet
import pytest

from mqpg.archive import run as running
from mqpg.archive.run import archive
from mqpg.errors import ConfigurationError, WrongState
from tests.archive.segments import TABLES, count, digests, fill, noted, parquet
from tests.support.broker import Broker, Session
from tests.support.retention import end_delayed_slot, keep, roll
from tests.support.waiting import eventually


def test_every_closed_table_is_in_files_of_its_own(mq: Session, dsn: str, tmp_path: Path) -> None:
    fill(mq)
    done = archive(tmp_path, dsn)
    assert done.waiting == []
    assert {row.table_name for row in noted(mq)} >= set(TABLES) - {"delayed"}
    for row in noted(mq):
        file = tmp_path / row.location
        assert pyarrow.parquet.read_metadata(file).num_rows == row.n
        manifest = json.loads(file.with_suffix(".json").read_text())
        assert (manifest["rows"], manifest["digest"]) == (row.n, str(row.digest))
        assert manifest["columns"] == row.columns
        live = f"select count(*) from mqpg.{row.table_name} where {manifest['key']} >= %s and {manifest['key']} < %s"
        assert mq.scalar(live, row.lower_bound, row.upper_bound) == row.n
    assert parquet(tmp_path) == {row.location for row in noted(mq)}
    assert count(mq, "commit_log") >= 12
    was = digests(mq)
    assert not archive(tmp_path, dsn).files
    assert digests(mq) == was


def test_a_closed_slot_of_delayed_messages_is_archived(mq: Session, dsn: str, tmp_path: Path) -> None:
    """Its bounds are times, and those of all other tables are numbers."""
    fill(mq)
    rows = mq.scalar("select count(*) from mqpg.delayed")
    assert rows
    end_delayed_slot(mq)
    keep(mq, 3)
    assert archive(tmp_path, dsn).waiting == []
    assert count(mq, "delayed") == rows


def test_no_file_has_a_body_a_key_or_a_secret(mq: Session, dsn: str, tmp_path: Path) -> None:
    fill(mq)
    archive(tmp_path, dsn)
    columns = {
        name for path in tmp_path.rglob("commit_log*.parquet") for name in pyarrow.parquet.read_schema(path).names
    }
    assert columns
    assert not columns & {"payloads", "keys", "tags", "headers", "nonce", "checksum"}


def test_small_files_hold_the_same_rows(mq: Session, dsn: str, tmp_path: Path) -> None:
    fill(mq, messages=30)
    archive(tmp_path / "small", dsn, rows=7)
    small = {table: (count(mq, table), sum(one[4] for one in digests(mq) if one[0] == table)) for table in TABLES}
    assert max(row.n for row in noted(mq) if row.table_name == "commit_log") == 7
    mq.execute("truncate mqpg.archived_segment")
    archive(tmp_path / "large", dsn)
    assert {
        table: (count(mq, table), sum(one[4] for one in digests(mq) if one[0] == table)) for table in TABLES
    } == small


def test_nothing_open_is_archived(mq: Session, dsn: str, tmp_path: Path) -> None:
    mq.send("kept", "1")
    mq.append()
    archive(tmp_path, dsn)
    assert count(mq, "commit_log") == 0


def test_decisions_wait_until_none_can_come(mq: Session, dsn: str, tmp_path: Path) -> None:
    handle = mq.scalar("select mqpg.prepare('kept', '1'::text, 'pg')")
    fill(mq)
    archive(tmp_path, dsn)
    assert count(mq, "commit_log") > 0
    assert count(mq, "op_log") == 0
    mq.execute("select mqpg.rollback(%s)", handle)
    mq.execute("delete from pgmq.q_mqpg_oplog")  # the compensator does it when the check is due
    keep(mq)
    archive(tmp_path, dsn)
    assert count(mq, "op_log") == 3


def test_a_slot_with_an_open_writer_waits(mq: Session, broker: Broker, dsn: str, tmp_path: Path) -> None:
    fill(mq)
    slot = mq.scalar("select min(segment_no) from mqpg.segment where family = 'cursor' and closed_at is not null")
    other = broker.session()
    with other.transaction():
        other.execute(f"lock table mqpg.cursor_{slot} in row exclusive mode")  # as a late writer
        assert archive(tmp_path, dsn).waiting == [f"cursor_{slot}"]
    assert archive(tmp_path, dsn).files["cursor"] >= 1


def test_appends_continue_meanwhile(mq: Session, broker: Broker, dsn: str, tmp_path: Path) -> None:
    fill(mq, messages=50)
    process = start(dsn, tmp_path, "--rows", "3")
    sent = 0
    while process.poll() is None:
        mq.send("kept", "1")
        sent += mq.append()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert sent > 10
    live = "select count(*) from mqpg.commit_log where batch_id < 268435456"
    assert count(mq, "commit_log") == mq.scalar(live)


def start(dsn: str, folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mqpg", "archive", "--dsn", dsn, "--to", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("moment", range(4))
def test_a_killed_run_leaves_nothing_half_and_the_next_one_continues(
    mq: Session, dsn: str, tmp_path: Path, moment: int
) -> None:
    fill(mq, messages=60)
    archive(tmp_path / "whole", dsn, rows=5)
    want = digests(mq)
    mq.execute("truncate mqpg.archived_segment")
    folder = tmp_path / "cut"
    process = start(dsn, folder, "--rows", "5")
    eventually(lambda: len(parquet(folder)) > 5 * moment or process.poll() is not None, interval=0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before"
    for row in noted(mq):
        assert pyarrow.parquet.read_metadata(folder / row.location).num_rows == row.n
    before = len(noted(mq))
    assert before < len(want)
    eventually(lambda: mq.scalar(
        "select count(*) from pg_stat_activity where application_name = 'mqpg archive'") == 0)  # fmt: skip
    done = archive(folder, dsn, rows=5)
    assert sum(done.files.values()) == len(want) - before
    assert digests(mq) == want
    assert not list(folder.rglob(".writing-*"))


def test_a_file_that_was_not_noted_is_used_and_not_written_again(mq: Session, dsn: str, tmp_path: Path) -> None:
    fill(mq)
    archive(tmp_path, dsn)
    want, written = digests(mq), {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    mq.execute("delete from mqpg.archived_segment")  # as if each run had been killed before it noted the file
    archive(tmp_path, dsn)
    assert digests(mq) == want
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == written


def test_a_file_of_another_history_is_left_as_it_is(mq: Session, dsn: str, tmp_path: Path) -> None:
    fill(mq)
    archive(tmp_path, dsn)
    want = parquet(tmp_path)
    mq.execute("delete from mqpg.archived_segment")
    mq.execute("update mqpg.commit_log set born_at = born_at + interval '1 s'")
    archive(tmp_path, dsn)
    assert parquet(tmp_path) > want
    (new,) = {row.location for row in noted(mq)} - want
    assert new.endswith("-2.parquet")


def test_two_runs_at_once_are_refused(mq: Session, broker: Broker, dsn: str, tmp_path: Path) -> None:
    fill(mq)
    with broker.session().transaction() as _:
        holder = broker.session()
        holder.execute("begin")
        holder.execute("select mqpg._begin_archive()")
        with pytest.raises(WrongState, match="another mqpg archive is running"):
            archive(tmp_path, dsn)
        holder.execute("rollback")
    assert noted(mq) == []
    archive(tmp_path, dsn)


def test_two_runs_into_one_folder_are_refused(mq: Session, dsn: str, tmp_path: Path) -> None:
    from mqpg.archive.folder import locked

    with locked(tmp_path), pytest.raises(ConfigurationError, match="another mqpg archive is writing"):
        archive(tmp_path, dsn)


def test_the_guard_holds_back_nothing(mq: Session, broker: Broker) -> None:
    guard = broker.session()
    guard.execute("begin")
    guard.execute("select mqpg._begin_archive()")
    state = mq.rows("select backend_xid, backend_xmin from pg_stat_activity where pid = %s", guard.pid)
    assert [tuple(row) for row in state] == [(None, None)]


def test_a_file_that_differs_is_not_noted(
    mq: Session, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file loses a row between the write and the read."""
    fill(mq)
    read = running.read_rows  # type: ignore[attr-defined]
    monkeypatch.setattr(running, "read_rows", lambda path, names: list(read(path, names))[1:])
    with pytest.raises(WrongState, match="rows with digest"):
        archive(tmp_path, dsn)
    assert all(row.n == 0 for row in noted(mq))
    assert parquet(tmp_path) == {row.location for row in noted(mq)}


def test_a_row_that_changes_under_way_is_written_again(
    mq: Session, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(mq)
    publish = running.publish  # type: ignore[attr-defined]
    changed: list[Path] = []

    def change(path: Path, manifest: dict[str, object]) -> None:
        publish(path, manifest)
        if manifest["table"] == "commit_log" and not changed:
            changed.append(path)
            mq.execute("update mqpg.commit_log set born_at = born_at + interval '1 s'")

    monkeypatch.setattr(running, "publish", change)
    archive(tmp_path, dsn)
    assert changed
    live = (
        "select sum(hashtextextended(q::text, 0)) from mqpg.audit_commit_log q where batch_id >= %s and batch_id < %s"
    )
    mq.execute("set timezone = 'UTC'")
    for row in noted(mq):
        if row.table_name == "commit_log" and row.n:
            assert mq.scalar(live, int(row.lower_bound), int(row.upper_bound)) == row.digest


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("null, '0', '1', 'x', 0, 0", "MQ001"),
        ("'held', '0', '1', 'x', 0, 0", "MQ001"),
        ("'tick', 'a', 'b', 'x', 0, 0", "MQ001"),
        ("'tick', '0', '9223372036854775807', 'x', 0, 0", "MQ018"),
    ],
)
def test_notes_that_cannot_be(mq: Session, arguments: str, code: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        mq.execute(f"select mqpg.note_archived({arguments})")
    assert caught.value.sqlstate == code


def test_only_workers_note(mq: Session) -> None:
    fill(mq)
    for granted, code in ((), "42501"), (("operator", "auditor"), "42501"):
        role = f"r{os.getpid()}{len(granted)}"
        mq.execute(f"create role {role} login")
        try:
            for right in granted:
                mq.execute(f"select mqpg.grant_{right}('{role}')")
            mq.execute(f"set role {role}")
            with pytest.raises(psycopg.Error) as caught:
                mq.execute("select mqpg.note_archived('tick', '0', '1', 'x', 0, 0)")
            assert caught.value.sqlstate in (code, "MQ025")
        finally:
            mq.execute("reset role")
            for right in granted:
                mq.execute(f"select mqpg.revoke_{right}('{role}')")
            mq.execute(f"drop role {role}")


def test_what_was_archived_before_a_merge_is_not_archived_again(mq: Session, dsn: str, tmp_path: Path) -> None:
    mq.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    archived: dict[str, int] = {}
    for _ in range(7):
        fill(mq)
        archive(tmp_path, dsn)
    archived = {table: count(mq, table) for table in ("commit_log", "consume_queue")}
    for _ in range(200):
        if any(row[0] == "merged" for row in keep(mq, 20)):
            break
    assert mq.scalar("select count(*) from mqpg.segment where merged_at is not null") > 0
    archive(tmp_path, dsn)
    for table, key in (("commit_log", "batch_id"), ("consume_queue", "tick_id")):
        assert count(mq, table) >= archived[table]
        overlaps = (
            "select count(*) from mqpg.archived_segment a join mqpg.archived_segment b on a.table_name = b.table_name"
            " and a.lower_bound::bigint < b.lower_bound::bigint and a.upper_bound::bigint > b.lower_bound::bigint"
            " where a.table_name = %s"
        )
        assert mq.scalar(overlaps, table) == 0, key


def test_a_merged_segment_is_archived_once(mq: Session, dsn: str, tmp_path: Path) -> None:
    """Half of it before the merge, the rest after it."""
    mq.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    fill(mq)
    archive(tmp_path, dsn)
    for _ in range(7):
        fill(mq)
    for _ in range(200):
        if any(row[0] == "merged" for row in keep(mq, 20)):
            break
    assert mq.scalar("select count(*) from mqpg.segment where merged_at is not null and family = 'log'") > 0
    archive(tmp_path, dsn)
    roll(mq)
    closed = (
        "select count(*) from mqpg.commit_log l join mqpg.segment s on s.family = 'log' and s.closed_at is not null"
        " and l.batch_id >= s.lower_bound::bigint and l.batch_id < s.upper_bound::bigint"
    )
    archive(tmp_path, dsn)
    assert count(mq, "commit_log") == mq.scalar(closed)
