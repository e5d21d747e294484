"""An audit with a state leaves out what earlier ones judged, and still finds what changed there."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.sql.engine import run_audit as run_full_audit
from mqpg.audit.sql.incremental import audit_with_state
from mqpg.audit.sql.workspace import open_workspace
from mqpg.audit.state import load_state
from mqpg.audit.verdict import Verdict
from mqpg.errors import DatabaseError
from tests.audit.all_faults import FAULTS
from tests.audit.judged import require_valid
from tests.audit.legal_history import live
from tests.audit.planting import apply_at
from tests.audit.random_history import damage
from tests.audit.random_history import work as work_at_random
from tests.audit.retention import drop_what_may_go
from tests.audit.story import JOURNAL_DDL, Story, Trio, let_die, message_id

# docs/prove/audit.md names it: only the queue rows tell, and judged ones are not read again.
_UNSEEN = "stored_offset_behind_an_unknown_message"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "audit.json"


@pytest.fixture
def incremental(trio: Trio, story: Story, state: Path) -> Callable[..., Report]:
    """A function that audits `trio` with a state."""
    while story.consume("mail", journal=False):
        pass

    def run(**options: Any) -> Report:
        return audit_with_state(trio.options(**options), state)

    return run


def work(story: Story, times: int = 3) -> None:
    """Send, commit, deliver and apply a few messages."""
    for number in range(times):
        story.broker.execute("select mqpg.send('orders', '{}'::text, key => %s)", (str(number),))
        story.business()
    story.drain()
    story.drain("mail", journal=False)


def valid(report: Report) -> dict[str, Any]:
    require_valid(report)
    found: dict[str, Any] = report.run["incremental"]
    return found


def altered(found: Report) -> dict[str, int]:
    """What only an incremental audit can find, and a full one that follows it cannot."""
    return {"altered": found.anomalies["altered"]}


def test_second_run_reads_only_what_is_new(incremental: Callable[..., Report], story: Story, state: Path) -> None:
    first = incremental()
    assert valid(first)["judged_before"] == {}
    judged = load_state(state)
    assert judged is not None
    assert judged.until_id > 0
    assert judged.totals["messages"] > 60
    work(story)
    second = incremental()
    assert valid(second)["judged_again"] is None
    assert valid(second)["judged_before"] == judged.totals
    assert second.run["rows"] < first.run["rows"] / 2
    third = incremental()
    assert valid(third)["judged_again"] is None
    assert third.run["incremental"]["judged"]["messages"] > judged.totals["messages"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted({fault.kind for fault in FAULTS}))
def test_a_fault_of_each_kind_is_found_behind_a_judged_history(
    kind: str, incremental: Callable[..., Report], trio: Trio, story: Story, rng: random.Random
) -> None:
    """The fault comes after a valid audit, and hits what that audit has judged, or what is new."""
    fault = rng.choice([one for one in FAULTS if one.kind == kind and one.name != _UNSEEN])
    options = fault.options | ({"groups": ("board",)} if fault.options.get("drained") else {})
    valid(incremental(**options))
    fault.plant(story)
    found, full = incremental(**options), run_full_audit(trio.options(**options))
    context = (fault.name, found.run["incremental"], found.examples)
    assert (found.verdict, found.anomalies) == (Verdict.INVALID, full.anomalies | altered(found)), context
    assert any(fault.evidence in row["evidence"] for row in found.examples), context


@pytest.mark.parametrize("times", [0, 1, 2])
def test_random_damage_gets_the_verdict_of_a_full_audit(
    times: int, incremental: Callable[..., Report], trio: Trio, story: Story, rng: random.Random
) -> None:
    work_at_random(story, rng, rng.randint(5, 30))
    before = incremental()
    work_at_random(story, rng, rng.randint(0, 20))
    done = damage(story, rng, times)
    found, full = incremental(), run_full_audit(trio.options())
    context = (done, before.verdict, found.run["incremental"], found.examples, full.examples)
    verdict = Verdict.INVALID if found.anomalies["altered"] else full.verdict
    assert (found.verdict, found.anomalies) == (verdict, full.anomalies | altered(found)), context


@pytest.mark.slow
def test_one_audit_after_the_other_gets_the_verdict_of_a_full_audit(
    incremental: Callable[..., Report], trio: Trio, story: Story, rng: random.Random
) -> None:
    """Messages stay open meanwhile: they are retried, redriven, purged, and delivered again by a seek."""
    for number in range(10):
        work_at_random(story, rng, rng.randint(1, 6))
        found, full = incremental(), run_full_audit(trio.options())
        context = (number, found.run["incremental"], found.examples, full.examples)
        assert (found.verdict, found.anomalies) == (full.verdict, full.anomalies), context


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_legal_history_is_valid_at_every_moment(trio: Trio, story: Story, state: Path, rng: random.Random) -> None:
    """Messages are in flight, retried, dead and redriven, and groups are moved, when it is audited."""
    options = AuditOptions(dsn=trio.broker, topics=("world",))

    def look(number: int) -> None:
        for report in (audit_with_state(options, state), run_full_audit(options)):
            assert report.verdict is not Verdict.INVALID, (number, report.run.get("incremental"), report.examples)

    live(story, rng.randrange(10**9), look=look)


def test_changes_in_the_judged_part_are_found(
    incremental: Callable[..., Report], story: Story, state: Path, trio: Trio
) -> None:
    """Each change is undone afterwards, and the earlier verdict holds again."""
    valid(incremental())
    judged = state.read_bytes()
    body = "(select min(batch_id) from mqpg.commit_log)"
    changes: dict[str, tuple[Any, str, list[str]]] = {
        "a second effect": (story.consumer, "mqpg_applied", [
            "insert into mqpg_applied select * from mqpg_applied where message_id = (select min(message_id) from "
            "mqpg_applied)"]),
        "a deleted effect": (story.consumer, "mqpg_applied", [
            "delete from mqpg_applied where message_id = (select max(message_id) from mqpg_applied)"]),
        "a deleted body": (story.broker, "mqpg.commit_log", [f"delete from mqpg.commit_log where batch_id = {body}"]),
        "a shorter body": (story.broker, "mqpg.commit_log", [
            f"update mqpg.commit_log set payloads = payloads[2:] where batch_id = {body}"]),
        "a changed decision": (story.broker, "mqpg.op_log", [
            "update mqpg.op_log set op = 'b' where message_id = (select min(message_id) from mqpg.op_log)"]),
        "another key": (story.broker, "mqpg.commit_log", [
            "update mqpg.commit_log set keys[1] = 'other' where batch_id = "
            "(select min(batch_id) from mqpg.commit_log where keys is not null)"]),
        "another producer group": (story.broker, "mqpg.commit_log", [
            "update mqpg.commit_log set producer_group_id = producer_group_id + 1 where batch_id = "
            "(select min(batch_id) from mqpg.commit_log where kind = 'h')"]),
        "another who decided": (story.broker, "mqpg.op_log", [
            "update mqpg.op_log set decided_by = 'checker' where message_id = (select min(message_id) from mqpg.op_log)"]),
        "a tick at another time": (story.broker, "mqpg.tick", [
            "update mqpg.tick set at = at + interval '1 ms' where tick_id = (select min(tick_id) from mqpg.tick)"]),
        "a deleted offset": (story.broker, "mqpg.consume_queue", [
            "delete from mqpg.consume_queue where subscription_id = 0 and base_offset = 0 and queue_id = 0"]),
        "a changed ledger row": (story.ledger, "mqpg_ledger", [
            "update mqpg_ledger set entry = 'fence' where handle = (select min(handle) from mqpg_ledger)"]),
        "a deleted ledger row": (story.ledger, "mqpg_ledger", [
            "delete from mqpg_ledger where handle = (select min(handle) from mqpg_ledger where entry = 'local')"]),
    }  # fmt: skip
    for what, (connection, table, statements) in changes.items():
        connection.execute(f"create temp table kept as table {table}")
        for statement in statements:
            assert connection.execute(statement).rowcount == 1, what
        report = incremental()
        assert report.verdict is Verdict.INVALID, what
        assert "judged rows have changed" in report.run["incremental"]["judged_again"], what
        assert report.anomalies == run_full_audit(trio.options()).anomalies | altered(report), what
        assert report.anomalies["altered"] == int(table.startswith("mqpg.")), what
        assert state.read_bytes() == judged, what  # Only a valid verdict advances the state.
        connection.execute(f"delete from {table}")
        connection.execute(f"insert into {table} select * from kept")
        connection.execute("drop table kept")
    assert valid(incremental())["judged_again"] is None


def test_two_judged_rows_that_exchange_a_value(incremental: Callable[..., Report], story: Story) -> None:
    """Number, sums and each column's values stay the same."""
    valid(incremental())
    ends = story.consumer.execute(
        "select min(message_id) as one, max(message_id) as other from mqpg_applied where applied_at < now()"
    ).fetchone()
    assert ends is not None
    exchanged = story.consumer.execute(
        "update mqpg_applied a set applied_at = b.applied_at from mqpg_applied b where b.message_id in (%(one)s, %(other)s)"
        " and a.message_id in (%(one)s, %(other)s) and a.message_id <> b.message_id",
        dict(ends),
    )
    assert exchanged.rowcount == 2
    assert "judged rows have changed" in incremental().run["incremental"]["judged_again"]


def test_open_messages_stay_to_be_judged(incremental: Callable[..., Report], story: Story, state: Path) -> None:
    """An undecided half, a delayed message and a pending retry do not hold up the others."""
    half = story.prepare()
    story.local(half)
    story.broker.execute("select mqpg.send('orders', '{}'::text, delay => interval '1 second')")
    retried = story.business()
    story.append()
    while story.consume(nack=(retried,)):
        pass
    work(story)
    valid(incremental())
    judged = load_state(state)
    assert judged is not None
    assert message_id(half) in judged.open
    work(story)
    valid(incremental())
    story.commit(half)
    time.sleep(1.1)
    work(story)
    assert valid(incremental())["judged_again"] is None
    work(story)
    assert valid(incremental())["judged_again"] is None
    judged = load_state(state)
    assert judged is not None
    assert judged.open == []
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message_id(half),))
    assert incremental().anomalies["lost"] == 1


def test_a_commit_later_than_the_audit_is_not_missed(
    incremental: Callable[..., Report], story: Story, trio: Trio, state: Path
) -> None:
    """Its ids are older than what the audit has judged, and its transaction is open meanwhile."""
    with psycopg.connect(trio.broker) as late:
        row = late.execute("select mqpg.send('orders', '{}'::text)").fetchone()
        assert row is not None
        work(story)
        valid(incremental())
        work(story)
        valid(incremental())
        late.commit()
    story.append()
    assert valid(incremental())["judged_again"] is None
    work(story)
    judged = valid(incremental())
    assert judged["judged_again"] is None
    assert judged["judged_before"]["messages"] < judged["judged"]["messages"]
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (row[0],))
    assert incremental().anomalies["lost"] == 1


def test_settings_that_change_the_meaning(incremental: Callable[..., Report], story: Story) -> None:
    for statement in (
        "select mqpg.seek('mail', 'orders', 'earliest')",
        "select mqpg.subscribe('new', 'orders', start => 'earliest')",
        "select mqpg.alter_subscription('mail', 'orders', filter => '$ == \"nothing\"')",
        "select mqpg.unsubscribe('new', 'orders')",
    ):
        story.drain("mail", journal=False)
        while story.consume("new", journal=False) if "unsub" in statement else False:
            pass
        assert valid(incremental()) is not None
        assert valid(incremental())["judged_again"] is None, statement
        story.broker.execute(statement.encode())
        assert valid(incremental())["judged_again"], statement
    assert valid(incremental(clock_tolerance=1.0))["judged_again"] == "the options are others"


def test_what_retention_drops_after_it_was_judged(incremental: Callable[..., Report], story: Story) -> None:
    valid(incremental())
    before = valid(incremental())["judged"]
    drop_what_may_go(story)
    after = valid(incremental())
    assert (after["judged_again"], after["judged_before"]) == (None, before)
    assert all(after["judged"][what] >= n for what, n in before.items())
    work(story)
    assert valid(incremental())["judged_again"] is None
    message = story.business()
    story.drain()
    story.drain("mail", journal=False)
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    assert incremental().anomalies["lost"] == 1


def test_a_group_whose_journal_is_read_for_the_first_time(
    incremental: Callable[..., Report], story: Story, trio: Trio
) -> None:
    """Nobody judged what group mail passed before, so a row in its journal makes that count."""
    valid(incremental(applied={}))
    work(story)
    assert valid(incremental(applied={}))["judged_again"] is None
    work(story)
    story.broker.execute(JOURNAL_DDL)
    row = story.consumer.execute("select * from mqpg_applied order by message_id desc limit 1").fetchone()
    assert row is not None
    values = ["mail", *list(row.values())[1:-1], None]
    story.broker.execute("insert into mqpg_applied values (%s, %s, %s, %s, %s, %s, %s, %s)", values)
    found = incremental(applied={})
    assert found.anomalies == run_full_audit(trio.options(applied={})).anomalies
    assert found.verdict is Verdict.INVALID
    assert "journal of group mail" in found.run["incremental"]["judged_again"]


def test_a_new_subscription_that_passes_judged_messages(
    incremental: Callable[..., Report], trio: Trio, story: Story
) -> None:
    """It acknowledges them between two audits and applies none."""
    story.broker.execute("select mqpg.create_topic('extra', 1)")
    story.broker.execute("select * from mqpg.send_batch('extra', array_fill('{}'::text, array[5]))")
    work(story)
    valid(incremental())
    story.broker.execute("select mqpg.subscribe('board', 'extra', start => 'earliest')")
    (row, *_) = story.broker.execute("select * from mqpg.receive('board', 'extra', 9, consumer => 'c1')").fetchall()
    story.broker.execute("select mqpg.ack(%s)", (row["receipt"],))
    found, full = incremental(), run_full_audit(trio.options())
    assert found.anomalies == full.anomalies
    assert (found.verdict, found.anomalies["lost"]) == (Verdict.INVALID, 5)


def test_a_session_that_is_lost_while_it_reads(trio: Trio, story: Story) -> None:
    with open_workspace(trio.broker) as work:
        work.insert("judged", [(True, -1, 0)])

        def lose() -> None:
            story.broker.execute("select pg_terminate_backend(%s, 10000)", (work.connection.info.backend_pid,))
            work.query("select 1 as one")

        with pytest.raises(DatabaseError):
            work.read_broker(lose)


def test_decisions_that_outlive_their_bodies_are_not_taken_as_dropped(
    incremental: Callable[..., Report], story: Story
) -> None:
    age = "update mqpg.settings set value = %s where name = 'segment_age'"
    for value in ("0 s", "6 hours"):  # Fingerprints keep a segment apart from the next one.
        story.broker.execute(age, (value,))
        story.broker.execute("select * from mqpg.keep()")
    work(story)
    valid(incremental())
    drop_what_may_go(story, decisions=False)
    (segment, *_) = story.broker.execute(
        "select lower_bound::bigint as low, upper_bound::bigint as high from mqpg.segment "
        "where family = 'log' and body_dropped_at is not null and dropped_at is null and leaving is null"
    ).fetchall()
    deleted = story.broker.execute(
        "delete from mqpg.op_log where message_id >> 10 >= %(low)s and message_id >> 10 < %(high)s", segment
    ).rowcount
    assert deleted > 0
    assert "part 1 of decision" in str(incremental().run["incremental"]["judged_again"])


def test_a_redriven_message_whose_failures_are_judged(
    incremental: Callable[..., Report], story: Story, state: Path
) -> None:
    """Its dead letter is compared with deliveries that the second audit does not read."""
    message = story.business()
    let_die(story, message)
    story.drain("mail", journal=False)
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    valid(incremental())
    assert failures_of(message, state)
    work(story)
    assert valid(incremental())["judged_again"] is None
    assert not failures_of(message, state)
    story.broker.execute("update mqpg.former_dead_letter set left_at = left_at - interval '400 days'")
    assert incremental().anomalies["mismatch"] == 2  # that of the story was redriven, too


def test_a_redriven_message_that_is_lost_behind_a_judged_history(
    incremental: Callable[..., Report], story: Story, trio: Trio
) -> None:
    """Its earlier retries, with higher attempts, are in the part of the lane that is not read."""
    message = story.business()
    let_die(story, message)
    story.drain("mail", journal=False)
    story.broker.execute("select mqpg.redrive('board', 'orders', array[%s::bigint])", (message,))
    valid(incremental())
    story.drain()
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    found = incremental()
    assert (found.verdict, found.anomalies["lost"]) == (Verdict.INVALID, 1), found.run["incremental"]
    assert found.anomalies == run_full_audit(trio.options()).anomalies


def test_a_dead_letter_of_a_message_that_another_group_retries(
    incremental: Callable[..., Report], story: Story, state: Path, trio: Trio
) -> None:
    """It is judged as long as the message is open, although the deliveries that failed are judged."""
    message = story.business()
    story.append()
    (row,) = story.broker.execute("select * from mqpg.receive('mail', 'orders', 1000)").fetchall()
    story.broker.execute("select mqpg.nack(%s, array[%s], delay => '1 hour')", (row["receipt"], message))
    let_die(story, message)
    valid(incremental())
    assert failures_of(message, state)
    story.broker.execute(
        "update mqpg.delayed set visible_at = clock_timestamp() where visible_at > now() + interval '1 minute'"
    )
    # Nor does the nack name another time: it is as one of an earlier release.
    story.broker.execute("update mqpg.cursor set reason = null where failed is null")
    story.append()
    assert valid(incremental())["judged_again"] is None
    apply_at(story, message)
    found, full = incremental(), run_full_audit(trio.options())
    assert (found.verdict, found.anomalies) == (full.verdict, full.anomalies), found.examples
    assert full.anomalies["dead_letter"] == 1


def failures_of(message: int, state: Path) -> list[Any]:
    """The failed deliveries of a message that the state has kept for the next audit."""
    judged = load_state(state)
    assert judged is not None
    return [failure for failure in judged.failures if message in failure]


def test_a_message_that_is_given_up_after_its_failures_were_judged(
    incremental: Callable[..., Report], story: Story
) -> None:
    """The nack that scheduled its retry is not read again."""
    broker = story.broker
    broker.execute("select mqpg.create_topic('short', 1)")
    broker.execute("select mqpg.subscribe('late', 'short', retry_delay => '1 microsecond')")
    message = story.one("select mqpg.send('short', '{}'::text)")
    for final in (False, True):
        story.append()
        (row,) = broker.execute("select * from mqpg.receive('late', 'short')").fetchall()
        broker.execute("select mqpg.nack(%s, %s, final => %s)", (row["receipt"], [message], final))
        work(story)
        valid(incremental())
