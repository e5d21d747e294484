"""`mqpg status`: what needs attention is said, and nothing else."""

import json
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import mqpg
from mqpg.status import Finding, Overview, advice, findings
from mqpg.status.finding import LATER
from mqpg.status.live_checks import check_moment, senders
from tests.fixtures.databases import OwnServer
from tests.support.broker import Broker, Session
from tests.support.in_process import Run
from tests.support.retention import roll
from tests.support.waiting import eventually

HEALTHY = Overview(
    refusal=None,
    clock_steps=[],
    broker={"broker_id": "x", "incarnation": 1, "release": "0"},
    workers=[{"role": role, "alive": 1, "active": 1} for role in ("appender", "compensator", "keeper")],
    groups=[],
    half_messages=[],
    silent_ledgers=[],
    blocked=[],
    pins=[],
    losses=[],
    orphans=[],
    foreign_locks=[],
    filters=[],
    moment=[Finding("clock", True, "the clock of the server is 0.0 s ahead of that of web-1")],
    failing=[],
    failing_workers=[],
    differing=[],
)
GROUP = {
    "consumer_group": "board", "topic": "orders", "paused": False, "lag": 0, "oldest_unread_seconds": None,
    "changed_seconds_ago": 1, "dead_letters": 0, "consumers": 1,
}  # fmt: skip


OWNER_GONE = {
    "cause": "owner_gone", "detail": {"owner": "c2"}, "at": "2026-11-24T12:00:00+00:00",
    "remedy": {"function": "unpin", "arguments": {"topic": "orders", "consumer": "c2", "consumer_group": "board"}},
}  # fmt: skip
LEASED: dict[str, Any] = {"cause": "leased", "detail": {}, "at": "2026-11-24T12:00:00+00:00", "remedy": None}


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A session at a broker for this test alone."""
    return broker.session()


def _said(**changed: list[dict[str, Any]]) -> list[str]:
    return advice(Overview(**(vars(HEALTHY) | changed)))


def test_nothing_is_said_of_a_healthy_broker() -> None:
    assert _said() == []
    assert _said(groups=[GROUP, GROUP | {"lag": 5, "oldest_unread_seconds": 300, "changed_seconds_ago": 2}]) == []


@pytest.mark.parametrize(
    ("part", "row", "words"),
    [
        ("workers", {"role": "appender", "alive": 1, "active": 0}, "no appender is at work, so no message is"),
        ("groups", {"paused": True, "lag": 7}, "is paused with 7 messages unread: resume it"),
        ("groups", {"paused": True, "topic_paused": True, "lag": 7}, "unread: resume the topic, mqpg topic resume "),
        (
            "groups",
            {"lag": 1200, "oldest_unread_seconds": 90, "changed_seconds_ago": 80},
            "has not moved for 80 s, with 1,200 messages unread: its consumers do not acknowledge",
        ),
        (
            "groups",
            {"lag": 2, "oldest_unread_seconds": 70, "changed_seconds_ago": 9000},
            "has not moved for 70 s, with 2 messages unread",
        ),
        (
            "groups",
            {"lag": 2, "oldest_unread_seconds": 90, "changed_seconds_ago": None},
            "has never moved, with 2 messages unread",
        ),
        (
            "groups",
            {"lag": 1, "oldest_unread_seconds": 90, "changed_seconds_ago": 80, "consumers": 0},
            "no mqpg consume reports for it",
        ),
        (
            "groups",
            {"lag": 1, "oldest_unread_seconds": 90, "changed_seconds_ago": 80, "causes": [OWNER_GONE]},
            "with 1 message unread: Start the consumer c2 again",
        ),
        (
            "groups",
            {"lag": 1, "oldest_unread_seconds": 90, "causes": [OWNER_GONE, LEASED]},
            "is held up in part, with 1 message unread (owner_gone): Start the consumer c2 again",
        ),
        (
            "groups",
            {
                "lag": 1,
                "oldest_unread_seconds": 9000,
                "changed_seconds_ago": 8000,
                "causes": [OWNER_GONE],
            },
            "mqpg subscription unpin board orders --consumer c2",
        ),
        ("groups", {"dead_letters": 1}, "has 1 dead letter: see mqpg dead-letters list board orders"),
        ("groups", {"dead_letters": 1001}, "has more than 1,000 dead letters"),
        (
            "half_messages",
            {"producer_group": "shop", "overdue": 3, "late": 3, "parked": 0, "reason": "its ledger is not served"},
            "3 half messages whose check is overdue (its ledger is not served)",
        ),
        (
            "half_messages",
            {"producer_group": "shop", "overdue": 0, "late": 0, "parked": 2, "reason": None},
            "has 2 parked half messages: decide",
        ),
        (
            "blocked",
            {
                "table_name": "commit_log_1",
                "state": "attached",
                "seconds": 100,
                "sessions": [{"pid": 17, "application": "report", "seconds": 90}],
            },
            "commit_log_1 waits for 100 s to be dropped, held up by pid 17 (report, in a transaction for 90 s): let it end, or select pg_terminate_backend(17)",
        ),
        ("orphans", {"topic": "gone", "messages": 1, "undecided": 2}, "the dropped topic gone has 1 message that"),
        (
            "losses",
            {"consumer_group": "board", "topic": "orders", "why": "age", "messages": 9},
            "lost 9 messages by the policy on age",
        ),
        (
            "foreign_locks",
            {"pid": 5, "role": "eve", "stops": "keep()", "remedy": "select pg_terminate_backend(5)"},
            "pid 5 (eve) stops keep(): select pg_terminate_backend(5)",
        ),
    ],
)
def test_each_trouble_is_one_sentence(part: str, row: dict[str, Any], words: str) -> None:
    rows = [one for one in HEALTHY.workers if one["role"] != "appender"] if part == "workers" else []
    (sentence,) = _said(**{part: [*rows, GROUP | row if part == "groups" else row]})
    assert words in sentence


@pytest.mark.parametrize("seconds", ["inf", "-inf", "nan", [], None, "long"])
def test_a_report_that_makes_no_sense_is_left_out(seconds: object) -> None:
    """Any role with a right may report it, and it must not be an error of everybody's status."""
    now = datetime.now(UTC)
    ended = {"at": now.isoformat(), "seconds": seconds}
    assert _said(ended_sessions=[{"role": "consumer", "host": "h", "pid": 1, "ended": ended, "now": now}]) == []


def test_the_most_urgent_comes_first() -> None:
    letters = GROUP | {"dead_letters": 2, "dead_letter_reason": "ValueError: amount"}
    still = GROUP | {"topic": "mails", "lag": 1, "oldest_unread_seconds": 90, "changed_seconds_ago": 80}
    loss = {"consumer_group": "board", "topic": "orders", "why": "age", "messages": 9}
    half = {"producer_group": "shop", "overdue": 0, "late": 0, "parked": 2, "reason": None}
    failing = {"consumer_group": "bill", "topic": "orders", "messages": 1, "message_id": 7, "attempt": 4, "reason": "E"}
    slot = Finding("replication slot", False, "the replication slot old is not used", "drop it")
    found = findings(
        replace(HEALTHY, groups=[letters, still], losses=[loss], half_messages=[half], moment=[slot], failing=[failing])
    )
    assert [(one.urgency, one.found.partition(",")[0], one.look) for one in found] == [
        (1, "group board of topic orders lost 9 messages by the policy on age within a day", None),
        (2, "group board of topic mails has not moved for 80 s", "mqpg why board mails"),
        (3, "group bill of topic orders fails again and again with 1 message", "mqpg why 7"),
        (3, "producer group shop has 2 parked half messages", "mqpg half list --parked --group shop"),
        (4, "group board of topic orders has 2 dead letters", "mqpg dead-letters list board orders"),
        (4, "the replication slot old is not used", None),
    ]
    assert found[4].found.endswith("the newest because of ValueError: amount")
    assert found[2].found.endswith("message 7 3 times (E)")


def test_what_fails_again_and_again(mq: Session, run: Run) -> None:
    mq.subscribed("orders", group="billing", max_attempts=9)
    sent = mq.send("orders", "1")
    for delay in ("1 ms", "1 hour"):
        eventually(lambda: mq.append() or mq.scalar("select sum(lag) > 0 from mqpg.subscription_lag"))
        (got,) = mq.receive("orders", group="billing")
        mq.nack(got.receipt, [sent], reason="ValueError:\n\x1b[2Jamount", delay=delay)
    (failing,) = json.loads(run("status", "--json")[1])["failing"]
    assert (failing["consumer_group"], failing["message_id"], failing["attempt"]) == ("billing", sent, 3)
    said = f"! group billing of topic orders fails again and again with 1 message, message {sent} 2 times (ValueError:"
    assert f"{said}\\n\\x1b[2Jamount): mend" in run("status")[1]  # no terminal takes it for a command


def test_the_reason_of_the_newest_dead_letter(mq: Session, run: Run) -> None:
    mq.subscribed("orders", group="billing", max_attempts=1)
    for reason in ("older", "newer"):
        mq.sent("orders", "1")
        (got,) = mq.receive("orders", group="billing")
        mq.nack(got.receipt, [got.message_id], reason=reason)
    assert "has 2 dead letters, the newest because of newer: see mqpg dead-letters list" in run("status")[1]


def test_the_clock_of_a_worker(mq: Session, run: Run) -> None:
    beat = "select mqpg._heartbeat(%s, 'keeper', %s, 1, 'active', jsonb_build_object('clock', {}))"
    now = "extract(epoch from clock_timestamp())"
    mq.execute(beat.format(f"{now} - 60"), "keeper-1", "far-away")
    mq.execute(beat.format("'no time'::text"), "keeper-2", "odd")
    (clock,) = [one for one in json.loads(run("status", "--json")[1])["attention"] if one.startswith("the clock")]
    assert "the clock of the worker's machine far-away is 60." in clock


def test_what_changes_by_the_minute_is_said_too() -> None:
    old = Finding(
        "old transaction", False, "pid 5 has a transaction that is open for 15 min", "end it", 4, {"pid": "5"}
    )
    said = "pid 5 has a transaction that is open for 15 min: end it"
    assert advice(replace(HEALTHY, moment=[old])) == [said]
    segment = {"table_name": "tick_1", "state": "attached", "seconds": 1359}
    holder = {"pid": 5, "application": "report", "seconds": 900}
    blocked = [segment | {"table_name": name, "sessions": [holder]} for name in ("tick_1", "tick_2", "tick_3")]
    once = "tick_1 and 2 other tables wait for 22 min 39 s to be dropped, held up by pid 5 (report, in a transaction for 15 min): let it end, or select pg_terminate_backend(5)"
    assert advice(replace(HEALTHY, moment=[old], blocked=blocked)) == [once]
    assert advice(replace(HEALTHY, moment=[replace(old, check="open transaction")], blocked=blocked)) == [said]
    blocked.append(segment | {"sessions": [holder | {"pid": 6}]})
    assert len(advice(replace(HEALTHY, moment=[old], blocked=blocked))) == 2


def test_a_sender_that_does_not_commit_is_said(mq: Session, dsn: str) -> None:
    """After a minute; here after a second. A transaction that has sent nothing is said after five minutes."""
    mq.call("create_topic", "orders")
    broker = Broker(dsn)
    program, reader = broker.session(), broker.session()
    for session, name in ((program, "import job"), (reader, "report")):
        session.execute(f"set application_name = '{name}'")
        session.execute("begin")
        session.execute("select count(*) from mqpg.topic")
    program.send("orders", "1")

    def rows(query: str) -> list[dict[str, Any]]:
        with mq.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.encode()).fetchall()

    (sender,) = eventually(lambda: senders(rows, 1, 60))
    assert re.fullmatch(
        rf"pid {program.pid} \(\w+, import job, from [\d.:]+\) has sent messages in a transaction that is open for \d+ s "
        r"\(idle in transaction\)",
        sender.found,
    )
    assert sender.urgency < LATER
    assert "they are delivered only after its commit" in str(sender.remedy)
    assert senders(rows, 0, 0) == []
    broker.close()


def test_transaction_ids_that_end_soon_are_said(mq: Session) -> None:
    """When they have ended, no database of the server takes writes. The update is never committed."""

    def rows(query: str) -> list[dict[str, Any]]:
        with mq.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.encode()).fetchall()

    def found() -> list[Finding]:
        return [one for one in check_moment(rows) if one.check == "transaction ids"]

    assert found() == []
    with mq.conn.transaction(force_rollback=True):
        mq.execute(
            "update pg_database set datfrozenxid = ((pg_current_xact_id()::text::numeric + 2794967296) % 4294967296)"
            "::text::xid where datname = current_database()"
        )
        (one,) = found()
    assert not one.ok
    assert re.search(r"not vacuumed for 1,500,00\d,\d{3} transactions: 644,48\d,\d{3} are left before", one.found), one


def test_commits_that_wait_for_a_synchronous_standby(own_server: OwnServer) -> None:
    """Workers cannot report either, so they look as if none was at work."""
    with (
        psycopg.connect(own_server.dsn, autocommit=True, row_factory=dict_row) as admin,
        mqpg.connect(own_server.dsn) as mq,
    ):

        def found() -> list[str]:
            moment = check_moment(lambda query: admin.execute(query.encode()).fetchall())
            return [f"{one.found}: {one.remedy}" for one in moment if one.check == "synchronous standby"]

        mq.create_topic("orders")
        admin.execute("alter system set synchronous_standby_names = 'gone'")
        admin.execute("select pg_reload_conf()")
        stop = threading.Event()

        def send() -> None:
            while not stop.is_set():
                mq.send("orders", 1)  # waits once its session has read the setting

        sender = threading.Thread(target=send)
        sender.start()
        try:
            eventually(found)
            assert re.fullmatch(
                r"commits wait for a synchronous standby for \d+ s \(1 session\): .*\(gone\).*", found()[0]
            )
        finally:
            stop.set()
            admin.execute("alter system reset synchronous_standby_names")
            admin.execute("select pg_reload_conf()")
            sender.join()
        assert found() == []


def test_filters_and_causes_of_a_real_broker(mq: Session, run: Run) -> None:
    mq.subscribed("orders", group="typo", filter='$.stat == "paid"')
    mq.call("subscribe", "wide", "orders", mode="broadcast", filter='$.stat == "paid"')
    mq.call("subscribe", "right", "orders", filter='$.state == "paid"')
    mq.call("subscribe", "billing", "orders")
    mq.sent("orders", '{"state": "paid"}')
    for group in ("typo", "right", "billing"):
        mq.receive("orders", group=group, consumer="one", lease="1 hour")
    for _ in range(2):  # a new member begins behind the messages of the first call
        for member in ("one", "two"):
            mq.receive("orders", group="wide", consumer=member)
        mq.sent("orders", '{"state": "paid"}')
    filters = [one["consumer_group"] for one in json.loads(run("status", "--json")[1])["filters"]]
    assert filters == ["typo", "wide"]
    page = run("status")[1]
    assert "! group typo of topic orders gets nothing through its filter" in page
    assert 'The newest one has state, but nothing at $."stat".' in page
    assert "mqpg subscription alter typo orders --filter FILTER" in page
    assert re.search(r"mqpg subscription seek typo orders \d+ --queue \d+$", page, re.MULTILINE)
    assert "select mqpg." not in page
    ((cause, detail, remedy),) = mq.rows("select * from mqpg._group_causes('billing', 'orders')")
    assert (cause, detail["consumer"], remedy) == ("leased", "one", None)
    assert mq.rows("select * from mqpg._group_causes('billing', 'unknown')") == []


def test_status_of_a_real_broker(mq: Session, run: Run) -> None:
    mq.subscribed("orders", queues=2, group="board")
    mq.call("subscribe", "all", "orders", mode="broadcast")
    mq.call("create_producer_group", "shop", check_after="00:10:00")
    mq.send("orders", "1", key="k")
    mq.prepare("orders", "2", "shop")
    mq.append()
    mq.call("pause", "orders", "board")
    status, out, err = run("status", "--json")
    assert status == 1, err
    found = json.loads(out)
    groups = {one["consumer_group"]: one for one in found["groups"]}
    assert groups["board"]["lag"] == 1
    assert groups["board"]["oldest_unread_seconds"] is not None
    assert groups["board"]["paused"] is True
    assert (groups["all"]["lag"], groups["all"]["oldest_unread_seconds"]) == (0, None)
    assert [(one["producer_group"], one["pending"], one["parked"]) for one in found["half_messages"]] == [
        ("shop", 1, 0)
    ]
    assert [text.partition(",")[0] for text in found["attention"]] == [
        "no appender is at work",
        "no compensator is at work",
        "no keeper is at work",
        "group board of topic orders is paused with 1 message unread: resume it when it may continue",
    ]
    page = run("status")[1]
    assert "consumer groups" in page
    assert "! no appender is at work" in page


def test_when_the_next_limit_is_reached(mq: Session, run: Run) -> None:
    mq.call("create_topic", "orders")
    mq.sent_batch("orders", ['"x"'] * 20)
    roll(mq)
    mq.execute("update mqpg.segment set opened_at = closed_at - interval '1 day' where closed_at is not null")

    def said(of_broker: int, of_topic: int) -> str:
        mq.execute("update mqpg.settings set value = %s where name = 'max_bytes'", str(of_broker))
        mq.call("alter_topic", "orders", max_bytes=of_topic)
        mq.scalar("select mqpg._apply_size_limits()")
        return run("status")[1].splitlines()[0].partition(" stored")[2]

    assert said(0, 0) == ""
    assert re.fullmatch(r"; it reaches max_bytes in about \d+ d( \d+ h)?", said(10**12, 0))
    assert said(10**12, 1) == "; topic orders reaches max_bytes in about 0 s"


def test_oldest_unread_message_and_dead_letters(mq: Session) -> None:
    mq.subscribed("orders", group="board", max_attempts=1)
    for n in range(3):
        mq.sent("orders", str(n))
    status = "select lag, claims, dead_letters, oldest_unread_at from mqpg.group_status"
    ticks = [
        row[0] for row in mq.rows("select k.at from mqpg.tick k join mqpg.consume_queue using (tick_id) order by 1")
    ]
    assert mq.rows(status) == [(3, 0, 0, ticks[0])]
    (first, *_) = mq.receive("orders", group="board", max_messages=1)
    mq.nack(first.receipt, [first.message_id], reason="no")
    assert mq.rows(status) == [(2, 0, 1, ticks[1])]
