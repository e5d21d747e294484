"""Audits of segments that retention has dropped, and that an archive has."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from mqpg.archive.run import archive
from mqpg.audit.archived import choose
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.sql.engine import run_audit
from mqpg.audit.sql.workspace import open_workspace
from mqpg.audit.verdict import Verdict
from mqpg.cli import app
from mqpg.errors import ConfigurationError
from mqpg.spark.jobs.audit import run_audit_in
from mqpg.spark.read.archive import local_archive
from tests.audit.story import Story, Trio

Audit = Callable[..., Report]
SAME = (
    "verdict",
    "reasons",
    "anomalies",
    "equations",
    "relations",
    "not_judged",
    "topics",
    "groups",
    "lag",
    "late_commits",
)


@pytest.fixture
def audit(trio: Trio) -> Audit:
    """A function that audits `trio` in plain SQL."""

    def run(**options: Any) -> Report:
        return run_audit(trio.options(**options))

    return run


@pytest.fixture
def both(spark: SparkSession, trio: Trio) -> Audit:
    """A function that audits `trio` with both engines, and requires the same facts."""

    def run(messages: int | None = None, **options: Any) -> Report:
        by_sql = run_audit(trio.options(**options))
        by_spark = run_audit_in(spark, trio.options(**options), messages=messages)
        assert facts(by_spark) == facts(by_sql), (by_spark.examples, by_sql.examples)
        assert by_spark.run.get("archive") == by_sql.run.get("archive")
        assert by_spark.run["broker"]["left_out"] == by_sql.run["broker"]["left_out"]
        return by_spark

    return run


@pytest.fixture
def closed(story: Story) -> Story:
    """The history in closed segments, which wait for the archive, and some work after it."""
    broker = story.broker
    broker.execute("select mqpg.alter_topic('orders', archive => true)")
    broker.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    for _ in range(3):
        roll(story)
    return story


def roll(story: Story) -> None:
    """Close the segments in use, and work in the next ones."""
    broker = story.broker
    broker.execute("select mqpg._enqueue_halves_now('test')")
    broker.execute("delete from pgmq.q_mqpg_oplog")
    for age in ("0 s", "6 hours"):
        broker.execute("update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')", (age,))
        keep(story, 1 if age == "0 s" else 20, retention="0 s")
    story.business()
    story.drain()
    story.drain("mail", journal=False)


def keep(story: Story, times: int, retention: str, topic: str | None = None) -> None:
    """Call keep() while topics have this retention, with which prepare() would be refused."""
    query = "update mqpg.topic set retention = %s::interval where name = coalesce(%s, name)"
    story.broker.execute(query, (retention, topic))
    for _ in range(times):
        story.broker.execute("select * from mqpg.keep()")
    story.broker.execute("update mqpg.topic set retention = '1 day'")


def gone(story: Story) -> set[str]:
    rows = story.broker.execute("select distinct family from mqpg.segment where dropped_at is not null").fetchall()
    return {row["family"] for row in rows}


def drop(story: Story) -> None:
    for _ in range(30):
        keep(story, 10, retention="0 s")
        if {"log", "tick", "cursor"} <= gone(story):
            return
    raise AssertionError(story.broker.execute("select * from mqpg.blocked_segments").fetchall())


@pytest.fixture
def folder(closed: Story, trio: Trio, tmp_path: Path) -> Path:
    """The archive of the history, before anything is dropped."""
    assert not gone(closed)
    archive(tmp_path / "archive", trio.broker)
    return tmp_path / "archive"


def found(report: Report) -> dict[str, int]:
    return {kind: count for kind, count in report.anomalies.items() if count}


def facts(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in SAME}


def test_the_audit_after_the_drop_is_the_one_before(closed: Story, folder: Path, audit: Audit) -> None:
    before = audit()
    assert (before.verdict, before.reasons) == (Verdict.VALID, ()), before.examples
    drop(closed)
    without, after = audit(), audit(archive=folder)
    assert facts(after) == facts(before)
    assert facts(without)["equations"] != facts(before)["equations"]
    assert after.run["archive"]["segments"].keys() >= {"log", "tick", "cursor"}
    assert after.run["broker"]["left_out"] == before.run["broker"]["left_out"]


@pytest.mark.spark
@pytest.mark.audits
def test_both_engines_read_the_same(closed: Story, trio: Trio, tmp_path: Path, both: Audit, audit: Audit) -> None:
    """Groups are moved over archived messages, and back, and a half message stays undecided."""
    message = closed.business()
    closed.append()
    closed.broker.execute("select mqpg.seek('mail', 'orders', 'latest')")
    closed.broker.execute("select mqpg.seek('board', 'orders', 'earliest')")
    closed.drain()
    for _ in range(3):
        roll(closed)
    strange = """(a, "b" \\c{1,2})"""
    closed.broker.execute("update mqpg.cursor set claims[1].consumer = %s where claims <> '{}'", (strange,))
    archive(tmp_path, trio.broker)
    before = audit()
    drop(closed)
    assert facts(both(archive=tmp_path)) == facts(before)
    closed.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    chosen = {"archive": f"file://{tmp_path}", "topics": ("orders",), "groups": ("board",)}
    assert found(both(**chosen, messages=1_000_000)) == {"lost": 1}


@pytest.mark.spark
@pytest.mark.audits
def test_both_engines_find_what_was_archived(
    closed: Story, trio: Trio, tmp_path: Path, both: Audit, audit: Audit, spark: SparkSession
) -> None:
    oldest = "(select min(batch_id) from mqpg.commit_log)"
    for fault in (
        f"update mqpg.commit_log set payloads[1] = '7' where batch_id = {oldest} + 1",
        f"delete from mqpg.commit_log where batch_id = {oldest}",
        "delete from mqpg.cursor where (subscription_id, queue_id, version) in "
        "(select subscription_id, queue_id, 2 from mqpg.cursor where queue_id >= 0 order by 1, 2 limit 1)",
        "update mqpg.cursor set claims[1].lease_until = at + interval '1 hour' where slot = 1 and action = 'r'",
    ):
        closed.broker.execute(fault)
    archive(tmp_path, trio.broker)
    before = audit()
    drop(closed)
    after = both(archive=tmp_path)
    assert found(after) == found(before)
    assert {"corrupt", "gap", "skipped"} <= found(after).keys()
    path = tmp_path / closed.one("select location from mqpg.archived_segment where table_name = 'op_log' limit 1")
    whole = path.read_bytes()
    for damage, why in DAMAGES.items():
        path.write_bytes(whole)
        damage(path)
        with pytest.raises(ConfigurationError, match=why) as by_sql:
            audit(archive=tmp_path)
        with pytest.raises(ConfigurationError) as by_spark:
            run_audit_in(spark, AuditOptions(dsn=trio.broker, archive=tmp_path))
        assert str(by_spark.value) == str(by_sql.value)
    with pytest.raises(ConfigurationError, match="reads a folder of this machine"):
        audit(archive="hdfs://somewhere/archive")


@pytest.mark.spark
@pytest.mark.audits
def test_an_archive_in_another_file_system(closed: Story, trio: Trio, folder: Path, spark: SparkSession) -> None:
    """This process reads a copy of each file."""
    drop(closed)
    name = f"fs.viewfs.mounttable.here{os.getpid()}.link./data"
    spark.sparkContext._jsc.hadoopConfiguration().set(name, f"file://{folder}")
    uri = f"viewfs://here{os.getpid()}/data"
    with open_workspace(trio.broker) as work:
        with local_archive(spark, work, uri) as copied:
            files = {str(path.relative_to(copied)) for path in copied.rglob("*.parquet")}
        assert files == {record["location"] for record in choose(work.query).files}
        assert not copied.exists()
        location = closed.one("select location from mqpg.archived_segment where table_name = 'tick' limit 1")
        (folder / location).unlink()
        with (
            pytest.raises(ConfigurationError, match=f"{uri}/{location} is missing"),
            local_archive(spark, work, uri),
        ):
            pass


def test_work_after_the_drop_is_judged_with_it(closed: Story, folder: Path, audit: Audit) -> None:
    drop(closed)
    message = closed.business()
    closed.drain()
    assert audit(archive=folder).verdict is Verdict.VALID
    closed.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    assert found(audit(archive=folder)) == {"lost": 1}


def test_a_fault_in_the_live_part_is_found(closed: Story, folder: Path, audit: Audit) -> None:
    drop(closed)
    message = closed.business()
    closed.drain()
    closed.broker.execute("delete from mqpg.commit_log where batch_id = %s", (message >> 10,))
    assert found(audit(archive=folder)) == {"gap": 1}


def test_a_message_lost_before_the_archive_is_found_after_the_drop(closed: Story, folder: Path, audit: Audit) -> None:
    drop(closed)
    oldest = "select min(message_id) as id from mqpg_applied"
    row = closed.consumer.execute(oldest).fetchone()
    assert row is not None
    closed.consumer.execute("delete from mqpg_applied where message_id = %s", (row["id"],))
    assert found(audit(archive=folder)) == {"lost": 1}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("delete from mqpg.commit_log where batch_id = (select min(batch_id) from mqpg.commit_log)", "gap"),
        ("update mqpg.commit_log set payloads[1] = '7' where batch_id = (select min(batch_id) from mqpg.commit_log)",
         "corrupt"),
    ],
)  # fmt: skip
def test_a_fault_that_was_archived_is_found(
    closed: Story, trio: Trio, tmp_path: Path, audit: Audit, fault: str, kind: str
) -> None:
    closed.broker.execute(fault)
    archive(tmp_path, trio.broker)
    drop(closed)
    assert found(audit()) == {}
    assert found(audit(archive=tmp_path)) == {kind: 1}


def test_decisions_that_are_still_there_are_judged(closed: Story, folder: Path, audit: Audit) -> None:
    """The bodies are dropped. A decision that changes now differs from the one in the archive."""
    before = audit()
    closed.broker.execute("update mqpg.settings set value = '1 year' where name = 'op_log_keep'")
    bodies = "select count(*) from mqpg.segment where family = 'log' and body_dropped_at is not null"
    for _ in range(30):
        keep(closed, 10, retention="0 s")
        if closed.one(bodies) >= 2:
            break
    assert "log" not in gone(closed)
    assert facts(audit(archive=folder)) == facts(before)
    oldest = "(select min(message_id) from mqpg.op_log where stage = 0 and op = 'c')"
    closed.broker.execute(f"delete from mqpg.op_log where message_id = {oldest}")
    assert audit(archive=folder).verdict is Verdict.INVALID


def damage_missing(path: Path) -> None:
    path.unlink()


def damage_truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def damage_changed(path: Path) -> None:
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.slice(1), path)


def damage_doubled(path: Path) -> None:
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(pyarrow.concat_tables([table, table.slice(0, 1)]), path)


def damage_other_text(path: Path) -> None:
    path.write_text("this is no Parquet file")


DAMAGES = {
    damage_missing: "is missing",
    damage_truncated: "is damaged",
    damage_changed: "is not what the broker noted",
    damage_doubled: "is not what the broker noted",
    damage_other_text: "is damaged",
}


def test_a_file_that_is_not_the_one_that_was_noted(
    closed: Story,
    folder: Path,
    audit: Audit,
    trio: Trio,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    drop(closed)
    query = "select location from mqpg.archived_segment where table_name = 'commit_log' and n > 1 limit 1"
    path = folder / closed.one(query)
    whole = path.read_bytes()
    for damage, why in DAMAGES.items():
        path.write_bytes(whole)
        damage(path)
        with pytest.raises(ConfigurationError, match=why):
            audit(archive=folder)
    monkeypatch.setenv("MQPG_DATABASE_URL", trio.broker)
    done = CliRunner().invoke(app, ["audit", "--engine", "sql", "--archive", str(folder)])
    errors = capfd.readouterr().err
    assert (done.exit_code, errors.count("\n")) == (2, 1), errors
    assert "is damaged" in errors


def test_what_is_not_archived_counts_as_dropped(closed: Story, folder: Path, audit: Audit) -> None:
    """A segment with a file that the broker does not know is not read, and the others are."""
    drop(closed)
    whole = audit(archive=folder).run["archive"]["segments"]
    closed.broker.execute("delete from mqpg.archived_segment where (table_name, lower_bound) = ('op_log', '0')")
    report = audit(archive=folder)
    assert report.run["archive"]["segments"].get("log", 0) == whole["log"] - 1
    assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples


def test_ticks_are_read_up_to_the_first_hole(closed: Story, folder: Path, audit: Audit) -> None:
    drop(closed)
    assert audit(archive=folder).run["archive"]["segments"]["tick"] > 1
    newest = "(select max(segment_no) from mqpg.segment where family = 'tick' and closed_at is not null"
    for hole in (
        "delete from mqpg.archived_segment where (table_name, lower_bound) = ('tick', '0')",
        # as a merge that left a topic out
        f"update mqpg.segment set left_out = '{{1}}' where family = 'tick' and segment_no = {newest}) + 1",
    ):
        closed.broker.execute(hole)
        report = audit(archive=folder)
        assert (report.verdict, report.reasons) == (Verdict.VALID, ()), report.examples
    assert "tick" not in report.run["archive"]["segments"]


def test_segments_that_were_merged_after_they_were_archived(
    closed: Story, trio: Trio, tmp_path: Path, audit: Audit
) -> None:
    """The merge leaves out what is archived, because another topic has a longer retention."""
    broker = closed.broker
    broker.execute("select mqpg.create_topic('long', 1)")
    for _ in range(7):
        broker.execute("select mqpg.send('long', '1'::text)")
        roll(closed)
    before = audit()
    archive(tmp_path, trio.broker)
    broker.execute("update mqpg.settings set value = case name when 'merge_waste' then '0' else '4' end "
                   "where name in ('merge_waste', 'segments_most')")  # fmt: skip
    for _ in range(30):
        keep(closed, 10, retention="0 s", topic="orders")
        if closed.one("select count(*) from mqpg.segment where family in ('log', 'tick') and left_out <> '{}'") > 1:
            break
    else:
        raise AssertionError("no merge left a topic out")
    assert closed.one("select count(*) from mqpg.segment where body_dropped_at is not null") > 0
    merged = audit(archive=tmp_path)
    assert (merged.verdict, merged.reasons) == (Verdict.VALID, ()), merged.examples
    drop(closed)
    for _ in range(10):
        keep(closed, 10, retention="0 s")
    assert facts(audit(archive=tmp_path)) == facts(before)


def test_the_archive_may_be_moved(closed: Story, folder: Path, audit: Audit, tmp_path: Path) -> None:
    drop(closed)
    shutil.move(folder, tmp_path / "elsewhere")
    assert audit(archive=tmp_path / "elsewhere").verdict is Verdict.VALID


@pytest.mark.parametrize("more", [["--engine", "sql", "--state", "s"], ["--engine", "sql", "--follow"]])
def test_where_it_cannot_be_used(more: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = CliRunner().invoke(app, ["audit", "--archive", str(tmp_path), *more])
    assert done.exit_code == 2
    assert "--archive can be used neither" in capfd.readouterr().err


def test_an_interval_without_follow_is_refused() -> None:
    done = CliRunner().invoke(app, ["audit", "--engine", "sql", "--interval", "5"])
    assert done.exit_code == 2
    assert "--interval needs --follow" in done.output
