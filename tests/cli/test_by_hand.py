"""Commands for people: send, peek, tail, seek with its preview, settings, status, doctor, completion."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

import mqpg.web
from mqpg.cli import messages as messages_module
from mqpg.cli import status as status_module
from mqpg.cli.completion import complete_group, complete_producer_group, complete_topic
from mqpg.errors import ConnectionFailed
from mqpg.status import overview as overview_module
from tests.support.broker import Broker, Session
from tests.support.forking import run_mqpg
from tests.support.in_process import Run
from tests.support.retention import keep, retain, roll
from tests.support.waiting import eventually

MQPG = str(Path(sys.executable).with_name("mqpg"))


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A session on a broker with the topic `orders` (2 queues) and the group `billing`."""
    session = broker.session()
    session.subscribed("orders", queues=2, group="billing")
    return session


def decoded(run: Run, *arguments: str, status: int = 0) -> Any:
    code, out, err = run(*arguments, "--json")
    assert code == status, err
    return json.loads(out)


@pytest.mark.usefixtures("mq")
def test_what_is_sent_by_hand_is_seen_by_hand(mq: Session, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = decoded(run, "send", "orders", '{"id": 7}', "--key", "7", "--tag", "blue", "--headers", '{"eu": true}')
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"id": 8}'))
    code, out, _ = run("send", "orders", "--key", "7", "--delay", "0 s")
    assert code == 0
    assert int(out) > sent["message_id"]
    assert run("peek", "orders")[0] == 1  # not appended
    mq.append()
    first, second = decoded(run, "peek", "orders")
    assert (first["message_id"], first["key"], first["tag"], first["payload"]) == (
        sent["message_id"],
        "7",
        "blue",
        {"id": 7},
    )
    assert [m["payload"] for m in decoded(run, "peek", "orders", "-n", "1")] == [{"id": 7}]
    place = ["--queue", str(second["queue_id"]), "--offset", str(second["queue_offset"])]
    assert [m["payload"] for m in decoded(run, "peek", "orders", *place)] == [{"id": 8}]
    code, out, _ = run("tail", "orders", "-n", "1")
    assert (code, out.split("\t")[-1]) == (0, '{"id": 8}\n')
    assert mq.scalar("select sum(lag) from mqpg.subscription_lag") == 2  # nobody noticed


def test_mistakes(mq: Session, run: Run) -> None:
    for arguments, word in (
        (("send", "orders", "no json"), "json"),
        (("send", "orders", "1", "--headers", "{"), "--headers is not JSON"),
        (("send", "nowhere", "1"), "nowhere"),
        (("peek", "nowhere"), "nowhere"),
        (("peek", "orders", "--offset", "1"), "--queue"),
        (("tail", "nowhere"), "nowhere"),
        (("tail", "orders", "--queue", "2"), "--queue must be between 0 and 1, not 2"),
        (("peek", "orders", "--queue", "-1"), "--queue must be between 0 and 1, not -1"),
    ):
        code, _, err = run(*arguments)
        assert code in (1, 2)
        assert word in err, err
        assert err.count("\n") == 1


def test_tail_follows(mq: Session, dsn: str) -> None:
    mq.sent("orders", "1")
    with subprocess.Popen(
        [MQPG, "tail", "orders", "--follow", "--json"],
        env=os.environ | {"MQPG_DATABASE_URL": dsn},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["payload"] == 1
        mq.sent("orders", "2")
        assert json.loads(process.stdout.readline())["payload"] == 2
        process.kill()


def test_seek_says_what_it_does_before_it_does_it(mq: Session, run: Run) -> None:
    mq.sent_batch("orders", ["1"] * 5)
    while delivery := mq.receive("orders", group="billing"):
        mq.ack(delivery[0].receipt)
    mq.sent_batch("orders", ["1"] * 2)
    found = decoded(run, "subscription", "seek", "billing", "orders", "earliest", "--dry-run")
    assert found.items() >= {"skipped": 0, "repeated": 5, "queues": 1, "moved": False}.items()
    code, out, _ = run("subscription", "seek", "billing", "orders", "latest", "--dry-run")
    assert (code, out) == (0, "skips 2 messages and repeats 0, on 1 queue\n")
    assert mq.scalar("select sum(lag) from mqpg.subscription_lag") == 2  # nothing was done
    code, out, _ = run("subscription", "seek", "billing", "orders", "earliest")
    assert (code, out.splitlines()) == (
        0,
        ["skips 0 messages and repeats 5, on 1 queue", "moved group billing on topic orders to earliest"],
    )
    assert mq.scalar("select sum(lag) from mqpg.subscription_lag") == 7
    one_queue = run("subscription", "seek", "billing", "orders", "0", "--queue", "1")[1]
    assert one_queue.splitlines()[-1] == "moved group billing on queue 1 of topic orders to 0"
    code, _, err = run("subscription", "seek", "nobody", "orders", "earliest")
    assert (code, "nobody" in err) == (2, True)


def on_a_terminal(dsn: str, *arguments: str, answer: str = "") -> int:
    """The exit status of a command whose input is a terminal."""
    main_end, terminal = os.openpty()
    try:
        os.write(main_end, answer.encode())
        env = os.environ | {"MQPG_DATABASE_URL": dsn}
        return run_mqpg(*arguments, env=env, stdin=terminal).returncode
    finally:
        os.close(main_end)
        os.close(terminal)


def test_seek_asks_on_a_terminal(mq: Session, dsn: str) -> None:
    mq.sent("orders", "1")

    def seek(*arguments: str, answer: str = "") -> int:
        return on_a_terminal(dsn, "subscription", "seek", "billing", "orders", "latest", *arguments, answer=answer)

    lag = "select sum(lag) from mqpg.subscription_lag"
    assert seek(answer="n\n") == 1
    assert mq.scalar(lag) == 1
    assert seek(answer="y\n") == 0
    assert mq.scalar(lag) == 0
    mq.call("seek", "billing", "orders", "earliest")
    assert seek("--yes") == 0
    assert mq.scalar(lag) == 0


@pytest.mark.parametrize(
    "command",
    [
        ("topic", "purge", "orders"),
        ("topic", "drop", "orders"),
        ("dead-letters", "discard", "billing", "orders", "--all"),
        ("subscription", "remove", "billing", "orders"),
    ],
)
def test_what_cannot_be_taken_back_asks_on_a_terminal(mq: Session, dsn: str, command: tuple[str, ...]) -> None:
    mq.sent("orders", "1")
    assert on_a_terminal(dsn, *command, answer="n\n") == 1
    assert mq.scalar("select sum(lag) from mqpg.subscription_lag") == 1
    force = ("--force",) if "drop" in command else ()
    assert on_a_terminal(dsn, *command, *force, answer="y\n") == 0


def test_what_cannot_be_taken_back_is_done_without_a_question(mq: Session, dsn: str) -> None:
    assert on_a_terminal(dsn, "topic", "purge", "orders", "--yes") == 0


def test_settings_and_workers(mq: Session, run: Run) -> None:
    assert {"name": "segment_age", "value": "6 hours"}.items() <= next(
        row for row in decoded(run, "settings") if row["name"] == "segment_age"
    ).items()
    assert [(one["role"], one["state"], one["seen_at"]) for one in decoded(run, "status", "--workers")] == [
        (role, "missing", None) for role in ("appender", "compensator", "keeper")
    ]
    assert "! no keeper is at work (it has never reported): start mqpg worker keeper" in run("status", "--workers")[1]
    detail = {"messages": 12, "clock": 1, "ledgers": {"shop": {"state": "ok", "reason": None, "failures": 3}}}
    mq.execute("select mqpg._heartbeat('a', 'appender', 'here', 7, 'active', %s::jsonb)", json.dumps(detail))
    *missing, row = decoded(run, "status", "--workers")
    assert [one["role"] for one in missing] == ["compensator", "keeper"]
    assert (row["role"], row["host"], row["pid"], row["alive"]) == ("appender", "here", 7, True)
    assert row["detail"] == detail
    code, out, _ = run("status", "--workers")
    assert code == 0
    assert "ledgers (shop (state ok, failures 3))" in " ".join(out.replace("│", " ").split())
    assert "no appender is at work" not in out


def test_a_role_whose_last_process_is_gone_is_missing(mq: Session, run: Run) -> None:
    mq.execute("select mqpg._heartbeat('k', 'keeper', 'far\x1baway', 8, 'stopped', '{}')")
    (one,) = [
        one for one in decoded(run, "status", "--workers") if one["state"] == "missing" and one["role"] == "keeper"
    ]
    assert (one["host"], one["pid"], one["alive"]) == ("far\x1baway", 8, False)
    (line,) = [line for line in run("status", "--workers")[1].splitlines() if "no keeper" in line]
    assert "(last seen 20" in line
    assert "UTC on far\\x1baway, pid 8): start mqpg worker keeper" in line


def test_the_sessions_that_hold_a_segment_up(mq: Session, run: Run, broker: Broker) -> None:
    mq.sent("orders", "1")
    mq.drain("orders", group="billing")
    roll(mq)
    reader, other = broker.session(), broker.session()
    reader.execute("set application_name = 'monthly report'")
    reader.execute("begin")
    reader.execute("lock table mqpg.consume_queue_1 in access share mode")
    retain(mq, "0 s")
    blocked = "select count(*) from mqpg.blocked_segments where table_name = 'consume_queue_1'"
    eventually(lambda: keep(mq) is not None and mq.scalar(blocked))
    held = "select count(*) from pg_stat_activity where pid = %s and xact_start < clock_timestamp() - interval '5.1 s'"
    eventually(lambda: mq.scalar(held, reader.pid))

    def begin_again() -> None:
        """Begin a new transaction. After five seconds it would hold the segment up, too."""
        other.execute("rollback; begin; lock table mqpg.consume_queue_1 in access share mode")

    begin_again()
    found = decoded(run, "status", status=1)["blocked"]
    (by,) = {one["blocked_by"] for one in found if one["table_name"] == "consume_queue_1"}
    assert by == f"{reader.pid} (monthly report)"
    begin_again()
    assert by in " ".join(run("status")[1].split())
    app = mqpg.web.app(broker.dsn)
    begin_again()
    page = TestClient(app).get("/storage").text
    app.state.site.source.close()
    assert f"{by}, in a transaction for" in page
    assert f"{other.pid} (" not in page


def test_the_doctor_says_what_is_wrong(mq: Session, run: Run, broker: Broker) -> None:
    found = {one["check"]: one for one in decoded(run, "doctor", status=1)}
    assert "PostgreSQL" in found["server"]["found"]
    assert found["clock"]["ok"]
    assert found["PGMQ"]["ok"]
    assert found["old transactions"]["ok"]
    assert found["schema"]["found"].startswith("release ")
    assert decoded(run, "doctor", "--schema") == [found["schema"]]
    broken = [one for one in decoded(run, "doctor", status=1) if not one["ok"]]
    assert any("no appender is at work" in one["found"] and one["remedy"] == "start mqpg worker" for one in broken)
    stranger = broker.session()
    stranger.execute("select pg_advisory_lock(1836150835, 0)")
    text = run("doctor")[1]
    assert f"pg_terminate_backend({stranger.pid})" in text


def test_the_doctor_finds_a_clock_that_is_off_and_an_old_transaction() -> None:
    """The checks get rows, because a test can change neither the server's clock nor wait for minutes."""
    from datetime import UTC, datetime, timedelta

    from mqpg.status.live_checks import _clocks, _transactions

    ahead = timedelta(seconds=60)
    (off,) = _clocks(lambda query: [{"at": datetime.now(UTC) + ahead}] if query.endswith(" as at") else [])
    assert (off.ok, "60.0 s ahead" in off.found) == (False, True)
    rows = (
        ({"writes": True, "sent": True}, "delivered only after its commit"),
        ({"writes": True, "sent": False}, "counts only after its commit"),
        ({"writes": False, "sent": False}, "end it, or"),
    )
    for does, words in rows:
        row = {"pid": 7, "role": "app", "application": "", "client": None, "state": "idle", "seconds": 900} | does
        (old,) = _transactions(lambda query, row=row: [row] if "xact_start" in query else [], 0)  # type: ignore[misc]
        said = f"pid 7 (app, no name) has {'sent messages in ' if does['sent'] else ''}a transaction that is open for "
        assert (old.ok, old.found) == (False, f"{said}15 min (idle)")
        assert words in str(old.remedy)
        assert "pg_terminate_backend(7)" in str(old.remedy)


def test_the_status_again_and_again(mq: Session, dsn: str, run: Run) -> None:
    assert run("status", "--watch", "--workers")[0] == 2
    code, out, _ = run("status", "--watch", "--count", "1")
    assert (code, "billing" in out) == (0, True)
    with subprocess.Popen(
        [MQPG, "status", "--watch", "--json", "--interval", "0.3"],
        env=os.environ | {"MQPG_DATABASE_URL": dsn},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["lag_change_per_second"] == {}
        mq.sent_batch("orders", ["1"] * 50)
        lines = process.stdout
        eventually(lambda: json.loads(lines.readline())["lag_change_per_second"]["billing orders"] > 0)
        process.kill()


def test_what_runs_on_outlives_a_broker_that_is_away(mq: Session, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mq.sent("orders", "1")
    reads, looks = [True, False, True], [True, False, True]
    read, look = overview_module.read_overview, messages_module._from

    def read_overview(rows: Any) -> Any:
        if not reads.pop(0):
            raise ConnectionFailed("the server\nis away")
        return read(rows)

    def messages(*arguments: Any) -> Any:
        if not looks.pop(0):
            raise ConnectionFailed("the server is away")
        yield from look(*arguments)

    def pause(seconds: float) -> None:
        if not looks:
            raise KeyboardInterrupt

    monkeypatch.setattr(status_module, "read_overview", read_overview)
    code, out, err = run("status", "--watch", "--interval", "0.1", "--count", "3", "--json")
    assert (code, err) == (0, "mqpg: the server is away; again in 0.1 s\n")
    assert [bool(json.loads(line)["findings"]) for line in out.splitlines()] == [True, True]
    reads[:] = [False]
    assert run("status", "--watch")[0] == 3
    monkeypatch.setattr(messages_module, "_from", messages)
    monkeypatch.setattr(messages_module, "time", SimpleNamespace(sleep=pause))
    code, out, err = run("tail", "orders", "--follow")
    assert (code, len(out.splitlines()), err) == (130, 1, "mqpg: the server is away; again at once\n")


def test_names_are_completed(mq: Session, monkeypatch: pytest.MonkeyPatch, dsn: str, tmp_path: Path) -> None:
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)
    mq.call("create_topic", "others")
    mq.call("create_producer_group", "shop")
    # A machine under load may take longer than the two seconds that a shell waits.
    eventually(lambda: complete_topic("or") == ["orders"])
    eventually(lambda: complete_topic("o") == ["orders", "others"])
    eventually(lambda: complete_group("b") == ["billing"])
    eventually(lambda: complete_producer_group("") == ["shop"])
    monkeypatch.setenv("MQPG_DATABASE_URL", "postgresql://127.0.0.1:1/nowhere")
    assert complete_topic("o") == []
    monkeypatch.setenv("MQPG_DATABASE_URL", "")
    assert complete_topic("o") == []


def test_the_shell_gets_the_names(mq: Session, dsn: str) -> None:
    env = os.environ | {
        "MQPG_DATABASE_URL": dsn, "_MQPG_COMPLETE": "complete_bash", "COMP_WORDS": "mqpg peek or", "COMP_CWORD": "2",
    }  # fmt: skip
    ended = subprocess.run([MQPG], env=env, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["orders"]
