"""`mqpg why` names the cause of what was broken on purpose, with real workers and consumers that are killed."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqpg.connection import lockers
from mqpg.errors import LockTimeout
from mqpg.status.source import Source
from tests.support.broker import Broker, Session, seconds
from tests.support.in_process import Run
from tests.support.processes import Process, Processes
from tests.support.waiting import eventually

Start = Callable[..., Process]
Why = Callable[..., list[dict[str, Any]]]
CONSUMER = """
import time
import mqpg

@mqpg.consumer("orders", group="billing", database="sqlite:///bills.db", start="earliest")
def bill(message, conn):
    if message.payload == "poison":
        raise ValueError("no such order")

@mqpg.consumer("orders", group="hung", database="sqlite:///bills.db", start="earliest", lease=0.1)
def hang(message, conn):
    time.sleep(600)
"""


@pytest.fixture
def mq(broker: Broker) -> Session:
    session = broker.session()
    session.call("create_topic", "orders", queues=1)
    return session


@pytest.fixture
def start(processes: Processes, tmp_path: Path) -> Start:
    """`start("worker")` runs `mqpg worker` on this test's broker."""
    (tmp_path / "shop.py").write_text(CONSUMER)
    return processes.start


@pytest.fixture
def why(run: Run) -> Why:
    """`why("billing", "orders", status=0)`: the rows of `mqpg why`, after its exit status is compared (None: any)."""

    def call(*about: object, status: int | None = 1) -> list[dict[str, Any]]:
        ended, out, err = run("why", *map(str, about), "--json")
        assert status is None or ended == status, f"{out}\n{err}"
        return json.loads(out) if out else []

    return call


def causes(why: Why, *about: object) -> list[str]:
    return [row["cause"] for row in why(*about, status=None)]


@pytest.mark.parametrize("command", ["status", "why", "why of a message", "doctor"])
def test_a_table_that_somebody_has_locked(
    mq: Session, broker: Broker, run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by vacuum full, or a migration that is left open. A reader would wait as long."""
    monkeypatch.setattr(lockers, "_PATIENCE", 0.2)
    words = ["why", str(mq.send("orders"))] if command == "why of a message" else [command]
    reading, locking = broker.session(), broker.session()
    with reading.conn.transaction():
        reading.execute("lock table mqpg.topic in access share mode")
        locked = threading.Thread(target=locking.execute, args=("vacuum full mqpg.topic",))
        locked.start()
        pids = [session.conn.info.backend_pid for session in (locking, reading)]

        def said() -> bool:
            status, _, err = run(*words)
            return (
                status == 1
                and "pid {} (no name) waits for pid {} and then locks the table mqpg.topic".format(*pids) in err
            )

        eventually(said)
    locked.join()
    with locking.conn.transaction():
        locking.execute("lock table mqpg.topic in access exclusive mode")
        status, _, err = run(*words)
    assert (status, f"waited 0.2 s for a lock: pid {pids[0]} (no name) has locked the table mqpg.topic" in err) == (
        1,
        True,
    )


def test_the_dashboard_says_who_has_locked_a_table(
    mq: Session, broker: Broker, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockers, "_PATIENCE", 0.2)
    source, locking = Source(dsn, "dashboard"), broker.session()
    with locking.conn.transaction():
        locking.execute("lock table mqpg.topic in access exclusive mode")
        with pytest.raises(
            LockTimeout, match=f"pid {locking.conn.info.backend_pid} .* has locked the table mqpg.topic"
        ):
            source.rows("select topic from mqpg.topics")
    assert source.rows("select topic from mqpg.topics") == [{"topic": "orders"}]
    source.close()


def test_a_worker_that_is_killed(mq: Session, why: Why, start: Start) -> None:
    mq.call("subscribe", "billing", "orders")
    (row,) = why(mq.send("orders"))
    assert (row["cause"], row["advice"]) == ("appender_not_running", "start mqpg worker")
    worker = start("worker", "appender")
    eventually(lambda: mq.scalar("select count(*) from mqpg.worker_status where alive") == 1)
    eventually(lambda: mq.scalar("select count(*) from mqpg.tick") > 1)
    worker.kill()
    sent = mq.send("orders")
    eventually(lambda: causes(why, sent) == ["appender_not_running"])  # though its heartbeat is young
    mq.append()
    (row,) = why(sent)
    assert (row["cause"], row["advice"]) == ("waiting_for_consumer", "start mqpg consume for group billing")
    assert row["remedy"] is None


def test_a_handler_that_hangs(mq: Session, why: Why, start: Start) -> None:
    sent = mq.sent("orders")
    start("consume", "shop:hang", "--consumer", "hang-1")
    eventually(lambda: mq.scalar("select count(*) from mqpg.cursor where claimed > 0") > 0)
    mq.execute("update mqpg.cursor set at = at - interval '2 minutes'")  # so it was for two minutes

    def advice() -> list[str]:
        return [row["advice"] for row in why(sent, status=None) if row["cause"] == "waiting_for_consumer"]

    eventually(
        lambda: any(said.startswith("1 consumer of the group said a moment ago to be alive") for said in advice())
    )


def test_a_consumer_waits_for_its_topic(mq: Session, dsn: str, start: Start) -> None:
    mq.call("drop_topic", "orders")
    consumer = start("consume", "shop:bill", "--consumer", "bill-1")
    eventually(lambda: "topic orders does not exist yet" in consumer.log())
    mq.call("create_topic", "orders", queues=1)
    eventually(lambda: mq.scalar("select count(*) from mqpg.subscription") == 1)
    second = start("consume", "shop:bill", "--consumer", "bill-2")
    mq.call("drop_topic", "orders", force=True)
    third = start("consume", "shop:bill", "--consumer", "bill-3")
    eventually(lambda: "topic orders does not exist yet" in third.log())
    assert third.stop() == 0
    second.kill()


def test_what_holds_several_queues_up_is_said_once(mq: Session, run: Run) -> None:
    mq.subscribed("mails", queues=3, group="mailer", mode="shared")
    for n in range(300):
        mq.send("mails", "1", key=f"k-{n}")
    mq.append()
    while mq.receive("mails", group="mailer", max_messages=1, lease=seconds(600), consumer="mailer-7"):
        pass
    found = json.loads(run("why", "mailer", "--json")[1])
    assert [one["detail"]["queue_id"] for one in found] == [0, 1, 2]  # each with its facts
    said, facts = run("why", "mailer")[1].splitlines()
    assert said.startswith("too_many_deliveries: Queue 0 is full: ")
    assert said.endswith("; the same holds for queues 1, 2.")
    assert facts.startswith("    queues 0, 1, 2, ")


def test_consumers_that_work_are_said_once(mq: Session, run: Run) -> None:
    mq.subscribed("mails", queues=2, group="mailer")
    for n in range(20):
        mq.send("mails", "1", key=f"k-{n}")
    mq.append()
    for lease in (600, 900):
        mq.receive("mails", group="mailer", max_messages=1, lease=seconds(lease), consumer="mailer-7")
    out = run("why", "mailer")[1]
    assert (out.count("leased: "), out.count("the same holds for queue 1.")) == (1, 1)


def test_names_that_are_unknown(mq: Session, why: Why) -> None:
    for about in ((99,), ("no-handle",), ("billing", "nowhere")):
        assert why(*about, status=2) == []
    assert causes(why, "billing", "orders") == ["not_subscribed"]


def test_names_that_are_mistyped_or_left_out(mq: Session, run: Run) -> None:
    for topic in ("mails", "letters.eu"):
        mq.call("create_topic", topic)
    mq.call("subscribe", "mailer", "mails")
    mq.call("subscribe", "post.eu", "letters.eu")
    for topic in ("mails", "orders"):
        mq.call("subscribe", "shipping", topic)
    status, out, _ = run("why", "mialer", "mails")
    assert (status, out.startswith("not_subscribed: did you mean mailer? ")) == (1, True)
    assert "mailer, shipping." in out
    assert out.splitlines()[0].endswith(": mqpg subscription add mialer mails")
    assert "did you mean" not in run("why", "nosuch", "mails")[1]
    assert "mails, orders." in run("why", "shipping", "letters.eu")[1]
    assert run("why", "mailer", "mials")[2] == "mqpg: topic mials does not exist; did you mean mails?\n"
    assert "topic x does not exist; there are: letters.eu, mails, orders" in run("why", "mailer", "x")[2]
    said = " ".join(run("why", "mails")[2].replace("│", " ").split())
    assert "name a group that reads the topic mails: mailer, shipping" in said
    for group in ("mailer", "post.eu"):
        assert run("why", group) == (0, "nothing holds it up\n", "")
    assert run("why", "shipping")[0] == 2
    assert "reads several topics: mails, orders; name one of them" in run("why", "shipping")[2]
    status, _, err = run("why", "mialer")
    assert status == 2
    assert "did you mean mailer?" in " ".join(err.replace("│", " ").split())


def test_in_words(mq: Session, run: Run) -> None:
    mq.call("subscribe", "billing", "orders")
    mq.call("pause", "orders", "billing")
    said, facts = run("why", "billing", "orders")[1].splitlines()
    assert said == "group_paused: run mqpg subscription resume billing orders"
    assert facts == "    topic orders, consumer_group billing"


def test_without_arguments_all_that_is_stuck_is_explained(mq: Session, why: Why, broker: Broker) -> None:
    mq.call("create_producer_group", "app", check_after="10 ms", max_checks=1)
    handle = mq.prepare("orders", "1", "app")

    def parked() -> bool:
        mq.call("due_checks", "app", lease="10 ms")
        return bool(mq.scalar("select count(*) from mqpg.half_parked"))

    eventually(parked)
    found = why()
    assert [one["found"] for one in found] == [
        "no appender is at work, so no message is delivered",
        "no compensator is at work, so no half message is asked for",
        "producer group app has 1 parked half message (no verdict after 1 check)",
        f"half message {handle} of topic orders",
        "no keeper is at work, so no segment is dropped",
    ]
    assert [one["cause"] for one in found[3]["causes"]] == ["half_parked"]
    assert found[0]["advice"] == "start mqpg worker"


def test_causes_of_a_group_are_said_of_what_they_cause(mq: Session, why: Why) -> None:
    mq.subscribed("letters", group="billing", max_attempts=1)
    for reason in ("ValueError", None):
        mq.sent("letters", "1")
        if reason:
            (got,) = mq.receive("letters", group="billing")
            mq.nack(got.receipt, [got.message_id], reason=reason)
    mq.call("pause", "letters", "billing")
    of_group = {one["found"]: one for one in why() if one["found"].startswith("group billing of topic letters")}
    paused = of_group["group billing of topic letters is paused with 1 message unread"]
    assert ([one["cause"] for one in paused["causes"]], paused["advice"]) == (["group_paused"], None)
    letters = of_group["group billing of topic letters has 1 dead letter, the newest because of ValueError"]
    assert (letters["causes"], letters["advice"]) == ([], "see mqpg dead-letters list billing letters")


def test_nothing_is_stuck(mq: Session, why: Why, start: Start) -> None:
    start("worker")
    active = "select count(distinct role) = 3 from mqpg.worker_status where alive and state = 'active'"
    eventually(lambda: mq.scalar(active))
    assert why(status=0) == []
