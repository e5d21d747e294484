"""What `mqpg half list` and `mqpg trace` say to somebody who has to decide half messages."""

import json
import sys

import pytest

from tests.support.broker import Broker, Session
from tests.support.in_process import Run
from tests.support.roles import Roles
from tests.support.waiting import eventually

HEARTBEAT = "select mqpg._heartbeat('compensator-1', 'compensator', 'node-1', 7, 'active', %s::jsonb)"


@pytest.fixture
def mq(broker: Broker) -> Session:
    session = broker.session()
    session.call("create_topic", "orders", queues=1)
    session.call("create_producer_group", "app", check_after="10 ms", max_checks=1)
    session.call("create_producer_group", "shop", checker="url", checker_target="shop", check_after="10 ms")
    return session


def parked(mq: Session, payload: str = '{"order": 3}') -> str:
    handle = mq.prepare("orders", payload, "app", key="o-3", tag="paid", headers='{"trace": 1}')

    def is_parked() -> bool:
        mq.call("due_checks", "app", lease="10 ms")
        return bool(mq.scalar("select count(*) from mqpg.half_parked where handle = %s", handle))

    eventually(is_parked)
    return handle


def test_the_list_says_what_is_parked_and_why(mq: Session, run: Run) -> None:
    handle = parked(mq)
    (row,) = json.loads(run("half", "list", "--json")[1])
    assert (row["state"], row["topic"], row["key"], row["handle"]) == ("parked", "orders", "o-3", handle)
    out = " ".join(run("half", "list")[1].split())
    assert "o-3" in out
    assert "mqpg trace HANDLE shows the payload" in out
    assert "producer group app: max_checks 1, check_after 10 ms: parked " in out
    assert "after it was prepared" in out
    assert "Checked again, it is parked again after 10 ms unless it is answered by then" in out
    assert "mqpg group alter app --max-checks 10 --check-after '1 min'" in out
    mq.call("alter_producer_group", "app", check_after="10 minutes", max_checks=5)
    assert "parked again" not in run("half", "list")[1]


def test_the_history_by_handle_shows_the_payload(mq: Session, run: Run) -> None:
    handle = parked(mq)
    by_handle, by_id = run("trace", handle), run("trace", handle.split(".")[2])
    assert by_handle == by_id
    status, out, _ = by_handle
    assert status == 0
    head = out.partition("┏")[0]
    assert "of topic orders, key o-3, tag paid: prepared" in head
    assert 'payload: {"order": 3}' in head
    assert 'headers: {"trace": 1}' in head
    assert "max_checks 1, check_after 10 ms: parked " in head
    assert "(no verdict after 1 check)" in head
    assert "mqpg half settle HANDLE commit|rollback --reason WHY" in head
    first, *_ = json.loads(run("trace", handle, "--json")[1])
    assert (first["event"], first["detail"]["key"]) == ("prepared", "o-3")
    assert first["detail"]["payload"] == {"order": 3}
    assert first["detail"]["headers"] == {"trace": 1}


def test_a_payload_is_cut_and_escaped(mq: Session, run: Run) -> None:
    handle = parked(mq, json.dumps({"a": "x" * 9000 + "\u202e"}, ensure_ascii=False))
    line = next(one for one in run("trace", handle)[1].splitlines() if one.startswith("payload: "))
    assert "characters more" in line
    assert len(line) < 2100
    assert len(json.loads(run("trace", handle, "--json")[1])[0]["detail"]["payload"]["a"]) == 9001
    handle = parked(mq, '{"a": "\u202e"}')
    assert "\\u202e" in run("trace", handle)[1]


def test_what_is_no_handle_of_this_broker(mq: Session, run: Run) -> None:
    handle = parked(mq)
    assert run("trace", "nonsense")[0] == 2
    status, _, err = run("trace", "0123456789ab" + handle[handle.index(".") :])
    assert (status, "another broker" in err) == (2, True)
    assert run("trace", "99999999")[0] == 1


def test_a_payload_that_a_commit_replaced(mq: Session, run: Run) -> None:
    handle = mq.prepare("orders", '{"draft": 1}', "app", key="o-4")
    mq.commit(handle, '{"final": 1}')
    mq.append()
    out = run("trace", handle)[1]
    assert 'payload: {"final": 1}' in out
    assert "key o-4: appended" in out
    assert "half settle" not in out


def test_a_ledger_that_does_not_answer(mq: Session, run: Run) -> None:
    mq.prepare("orders", "1", "shop")
    mq.execute("select pg_sleep(0.05)")
    assert "asked" not in run("half", "list")[1].partition("pending: ")[2]
    detail = {"ledgers": {"shop": {"state": "no verdict", "reason": "connection\x1b refused", "failures": 80}}}
    mq.execute(HEARTBEAT, json.dumps(detail))
    out = run("half", "list")[1]
    assert "its ledger shop was asked 80 times without an answer: connection\\x1b refused" in out
    assert "Make the database of the ledger shop answer" in out


def test_keys_and_payloads_need_the_right_to_read(
    mq: Session, run: Run, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, role = parked(mq), roles("halves")
    mq.call("grant_operator", role.name)
    mq.call("grant_auditor", role.name)
    monkeypatch.setenv("MQPG_DATABASE_URL", role.dsn)
    (row,) = json.loads(run("half", "list", "--json")[1])
    assert (row["handle"], row["key"]) == (handle, None)
    assert "max_checks 1" in run("half", "list")[1]
    status, out, err = run("trace", handle)
    assert (status, out) == (1, "")
    assert "permission denied" in err
    mq.call("grant_receive", "*", "orders", role.name)
    assert 'payload: {"order": 3}' in run("trace", handle)[1]
    assert json.loads(run("half", "list", "--json")[1])[0]["key"] == "o-3"


def test_half_messages_whose_producer_group_was_dropped(mq: Session, broker: Broker, run: Run) -> None:
    """It was dropped while they were prepared. Nobody is asked about them, so they need an operator most of all."""
    producer = broker.session()
    producer.execute("begin")
    handle = producer.prepare("orders", "1", "app")
    mq.call("drop_producer_group", "app")
    producer.execute("commit")
    mq.execute("select pg_sleep(0.02)")  # its check is due
    assert "the producer group of some was dropped" in run("half", "list")[1]
    (row,) = json.loads(run("half", "list", "--json")[1])
    assert (row["handle"], row["producer_group"]) == (handle, None)
    assert run("half", "list", "--group", "app", "--json")[1].strip() == "[]"


def test_a_handle_can_be_copied_from_a_narrow_terminal(mq: Session, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table would cut it into pieces of five characters."""
    handle = mq.prepare("orders", "1", "shop", key="a b")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for width, is_table in (("80", False), ("250", True)):
        monkeypatch.setenv("COLUMNS", width)
        out = run("half", "list")[1]
        assert ("┃" in out) == is_table
        assert any(line.split() == ["handle", handle] for line in out.splitlines()) != is_table
        assert (handle in out, "orders" in out) == (True, True)


def test_what_is_not_listed_is_said(mq: Session, run: Run) -> None:
    for _ in range(3):
        mq.prepare("orders", "1", "shop")
    out = run("half", "list", "--limit", "2")[1]
    assert "only the oldest 2: --limit lists more" in out
    assert len(json.loads(run("half", "list", "--limit", "2", "--json")[1])) == 2
    assert "only the oldest" not in run("half", "list", "--limit", "3")[1]
