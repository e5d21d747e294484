"""A journal speaks for the time, and the topic, in which the consumers of a group kept it."""

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mqpg
from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.judged import found, require_valid

pytestmark = pytest.mark.spark

RunAudit = Callable[[AuditOptions], Report]


@pytest.fixture
def mq(dsn: str) -> Iterator[mqpg.Client]:
    """A broker with the topics t and u."""
    with mqpg.connect(dsn) as client:
        for topic in ("t", "u"):
            client.create_topic(topic, queues=2)
        yield client


def consume(mq: mqpg.Client, topic: str = "t", messages: int = 5, **options: Any) -> None:
    """Start a consumer of group g, send messages, and let it handle whatever is there."""

    @mqpg.consumer(topic, group="g", **options)
    def handle(message: mqpg.Message, conn: Any) -> None:
        pass

    mq.append()
    handle.step(mq)
    for number in range(messages):
        mq.send(topic, number)
    mq.append()
    while handle.step(mq):
        pass
    handle.close()


def judged(run_audit: RunAudit, dsn: str, **options: Any) -> tuple[Verdict, dict[str, int], list[str]]:
    """The verdict, the anomalies that were found, and the evidence of the notes."""
    report = run_audit(AuditOptions(dsn=dsn, drained=True, **options))
    assert [note["kind"] for note in report.notes] == ["journal"] * len(report.notes)
    return report.verdict, found(report), [note["evidence"] for note in report.notes]


def forget(mq: mqpg.Client, topic: str, which: str) -> None:
    """Delete the first or the last effect on a topic."""
    with mq.transaction() as conn:
        deleted = conn.execute(
            f"delete from mqpg_applied where ctid = (select {which}(ctid) from mqpg_applied where message_id = "
            f"(select {which}(message_id) from mqpg_applied where topic = %(topic)s) and topic = %(topic)s)",
            {"topic": topic},
        )
        assert deleted.rowcount == 1


def test_a_journal_that_is_switched_on_off_and_on_again(run_audit: RunAudit, mq: mqpg.Client, dsn: str) -> None:
    for journal in (False, True, False, True):
        consume(mq, journal=journal)
    verdict, found, notes = judged(run_audit, dsn)
    assert (verdict, found) == (Verdict.VALID, {})
    assert sum(int(note.split()[0]) for note in notes) == 10
    for which in ("min", "max"):  # Each time in which it was kept is judged.
        forget(mq, "t", which)
    assert judged(run_audit, dsn)[1] == {"lost": 2}


@pytest.mark.parametrize("steps", ["off seek on", "on seek off seek on", "on off seek off on", "on off seek on"])
def test_a_seek_back_over_what_was_taken_without_a_journal(
    run_audit: RunAudit, mq: mqpg.Client, dsn: str, steps: str
) -> None:
    """Which of the times that a message came are in the journal is not known."""
    mq.subscribe("g", "t")
    for step in steps.split():
        if step == "seek":
            mq.seek("g", "t", "earliest")
        else:
            consume(mq, journal=step == "on")
    assert judged(run_audit, dsn)[:2] == (Verdict.VALID, {})
    consume(mq, journal=True)
    forget(mq, "t", "max")
    assert judged(run_audit, dsn)[1] == {"lost": 1}


def test_a_journal_in_the_consumers_database_that_is_switched_on(
    run_audit: RunAudit, mq: mqpg.Client, dsn: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'consumer.db'}"
    for journal in (False, True):
        consume(mq, journal=journal, database=url, consumer="one")
    verdict, found, notes = judged(run_audit, dsn, applied={"g": url})
    assert (verdict, found) == (Verdict.VALID, {})
    assert sum(int(note.split()[0]) for note in notes) == 5


def test_a_journal_that_no_consumer_kept(run_audit: RunAudit, mq: mqpg.Client, dsn: str, tmp_path: Path) -> None:
    """Its table is there and empty, so nothing that the group did is judged."""
    url = f"sqlite:///{tmp_path / 'consumer.db'}"
    consume(mq, database=url, consumer="one")
    with sqlite3.connect(tmp_path / "consumer.db") as database:
        assert database.execute("select count(*) from mqpg_applied").fetchone() == (0,)
    report = run_audit(AuditOptions(dsn=dsn, applied={"g": url}))
    assert report.headline == "valid for 0 of 1 groups"
    assert list(map(str, report.not_judged)) == ["consumer group without a journal: g (5)"]
    assert judged(run_audit, dsn, applied={"g": url})[:2] == (Verdict.UNKNOWN, {})
    mq.subscribe("g", "u")  # No consumer takes part in this topic, so none says whether it keeps a journal.
    assert run_audit(AuditOptions(dsn=dsn, applied={"g": url})).headline == "valid for 0 of 1 groups"
    consume(mq, messages=0, journal=True, database=url, consumer="one")
    assert run_audit(AuditOptions(dsn=dsn, applied={"g": url})).headline == "valid for 0 of 1 groups"
    consume(mq, messages=1, journal=True, database=url, consumer="one")
    assert run_audit(AuditOptions(dsn=dsn, applied={"g": url})).headline == "valid"
    assert judged(run_audit, dsn, applied={"g": url})[:2] == (Verdict.VALID, {})


def test_one_group_that_keeps_a_journal_of_one_topic(run_audit: RunAudit, mq: mqpg.Client, dsn: str) -> None:
    consume(mq, "t", journal=True)
    consume(mq, "u")
    verdict, found, notes = judged(run_audit, dsn)
    assert (verdict, found) == (Verdict.VALID, {})
    assert sum(int(note.split()[0]) for note in notes) == 5
    forget(mq, "t", "min")
    assert judged(run_audit, dsn)[1] == {"lost": 1}


def test_a_topic_that_was_dropped_and_created_again(
    run_audit: RunAudit, mq: mqpg.Client, dsn: str, tmp_path: Path
) -> None:
    """The offsets in the consumer's database were counted in the topic that is gone."""
    url = f"sqlite:///{tmp_path / 'consumer.db'}"
    consume(mq, messages=9, journal=True, database=url, consumer="one")
    mq.drop_topic("t", force=True)
    mq.create_topic("t")
    mq.subscribe("g", "t", mode="pinned")
    mq.send("t", 1)
    mq.append()
    require_valid(run_audit(AuditOptions(dsn=dsn, applied={"g": url})))


def test_a_seek_back_in_a_topic_that_was_dropped(run_audit: RunAudit, mq: mqpg.Client, dsn: str) -> None:
    """The journal has its messages as often as they came, and its queues are gone."""
    for _ in range(2):
        consume(mq, journal=True)
        mq.seek("g", "t", "earliest")
        consume(mq, journal=True)
        mq.drop_topic("t", force=True)
        mq.create_topic("t")
    consume(mq, journal=True)
    assert judged(run_audit, dsn) == (Verdict.VALID, {}, [])
    with mq.transaction() as conn:
        conn.execute("insert into mqpg_applied select * from mqpg_applied where message_id = "
                     "(select min(message_id) from mqpg_applied)")  # fmt: skip
    assert judged(run_audit, dsn)[1] == {"duplicated": 1}


def test_messages_that_no_consumer_of_the_library_took(run_audit: RunAudit, mq: mqpg.Client, dsn: str) -> None:
    mq.subscribe("g", "t")
    mq.send("t", 1)
    mq.append()
    mq.ack(mq.receive("g", "t"))
    consume(mq, journal=True)
    assert judged(run_audit, dsn)[:2] == (Verdict.VALID, {})


def test_a_journal_from_an_earlier_release_is_judged_from_the_start(
    run_audit: RunAudit, mq: mqpg.Client, dsn: str
) -> None:
    consume(mq, journal=True)
    with mq.transaction() as conn:
        conn.execute("update mqpg.queue_start set journal = null")
    consume(mq, journal=True)
    assert judged(run_audit, dsn) == (Verdict.VALID, {}, [])
    forget(mq, "t", "min")
    assert judged(run_audit, dsn)[1] == {"lost": 1}


def test_a_topic_all_of_whose_effects_are_gone(run_audit: RunAudit, mq: mqpg.Client, dsn: str) -> None:
    for topic in ("t", "u"):
        consume(mq, topic, journal=True)
    with mq.transaction() as conn:
        conn.execute("delete from mqpg_applied where topic = 'u'")
    assert judged(run_audit, dsn)[1] == {"lost": 5}


def test_a_queue_that_was_added_while_a_journal_is_kept(run_audit: RunAudit, mq: mqpg.Client, dsn: str) -> None:
    consume(mq, journal=True)
    mq.alter_topic("t", queues=4)
    with mq.transaction() as conn:
        for _ in range(3):
            conn.execute("select mqpg._open_queues()")
            conn.execute("commit; begin")
            mq.append()
    consume(mq, messages=20, journal=True)
    assert judged(run_audit, dsn) == (Verdict.VALID, {}, [])
    forget(mq, "t", "max")
    assert judged(run_audit, dsn)[1] == {"lost": 1}


def test_a_member_of_a_broadcast_that_joins_after_retention(run_audit: RunAudit, mq: mqpg.Client, dsn: str) -> None:
    """The broker gives it the oldest message that is kept, and later nobody knows its first version."""
    mq.create_topic("pin")
    mq.subscribe("lazy", "pin")
    mq.send("pin", 1)
    for members in (["m1"], ["m1", "m2"], ["m1", "m2"]):
        for member in members:
            consume(mq, messages=5 if member == "m1" else 0, mode="broadcast", consumer=member, journal=True)
        _retain(mq)
    assert judged(run_audit, dsn, groups=("g",)) == (Verdict.VALID, {}, [])
    forget(mq, "t", "max")
    assert judged(run_audit, dsn, groups=("g",))[1] == {"lost": 1}


def _retain(mq: mqpg.Client) -> None:
    """Let retention pass what is read, though the queues stay for a reader of another topic, and drop old cursors."""
    settings = "update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')"
    for age, retention in (("0 s", "0 s"), ("6 hours", "1 day")):
        with mq.transaction() as conn:
            conn.execute(settings, (age,))
            conn.execute("update mqpg.topic set retention = %s", (retention,))
        for _ in range(4):
            mq.keep()


def test_a_group_with_its_own_offsets_that_was_moved(
    run_audit: RunAudit, mq: mqpg.Client, dsn: str, tmp_path: Path
) -> None:
    """Its database does not know of the move until the next message."""
    url = f"sqlite:///{tmp_path / 'consumer.db'}"
    consume(mq, database=url, consumer="one", journal=True)
    for move in (partial(mq.purge_topic, "t"), partial(mq.seek, "g", "t", "latest")):
        for number in range(5):
            mq.send("t", number)
        mq.append()
        move()
    options: dict[str, Any] = {"applied": {"g": url}}
    assert judged(run_audit, dsn, **options)[:2] == (Verdict.VALID, {})
    mq.seek("g", "t", "earliest")
    report = run_audit(AuditOptions(dsn=dsn, drained=True, **options))
    assert report.verdict is Verdict.UNKNOWN
    assert "group g is 10 messages behind on topic t" in "".join(report.reasons)


def test_a_group_with_its_own_offsets_that_starts_behind_them(
    run_audit: RunAudit, mq: mqpg.Client, dsn: str, tmp_path: Path
) -> None:
    """The group goes on at its own offsets. Messages before the broker's position are read without a claim."""
    options: dict[str, Any] = {"database": f"sqlite:///{tmp_path / 'consumer.db'}", "consumer": "one", "journal": True}
    consume(mq, **options)
    mq.unsubscribe("g", "t")
    mq.send_batch("t", [1, 2, 3])
    mq.append()
    mq.subscribe("g", "t", mode="pinned", start="latest")
    consume(mq, **options)
    applied: dict[str, Any] = {"applied": {"g": options["database"]}}
    assert judged(run_audit, dsn, **applied)[:2] == (Verdict.VALID, {})
    with sqlite3.connect(tmp_path / "consumer.db") as database:
        database.execute("insert into mqpg_applied select * from mqpg_applied where message_id = "
                         "(select max(message_id) - 6 * 1024 from mqpg_applied)")  # fmt: skip
    database.close()
    assert judged(run_audit, dsn, **applied)[1] == {"duplicated": 1}


def test_an_effect_from_before_the_only_start_of_a_group(
    run_audit: RunAudit, mq: mqpg.Client, dsn: str, tmp_path: Path
) -> None:
    """Nobody gave the group this message."""
    url = f"sqlite:///{tmp_path / 'consumer.db'}"
    message = mq.send("t", 1)
    mq.append()
    mq.subscribe("g", "t", mode="pinned", start="latest")
    consume(mq, database=url, consumer="one", journal=True)
    with mq.transaction() as conn:
        place = conn.execute("select queue_id from mqpg.consume_queue where first_ids[1] = %s", (message,)).fetchone()
    with sqlite3.connect(tmp_path / "consumer.db") as database:
        database.execute("insert into mqpg_applied select * from mqpg_applied limit 1")
        database.execute(
            "update mqpg_applied set message_id = ?, queue_offset = 0, queue_id = ? where rowid = last_insert_rowid()",
            (message, *(place or ())),
        )
    database.close()
    assert judged(run_audit, dsn, applied={"g": url})[1] == {"phantom": 1}
