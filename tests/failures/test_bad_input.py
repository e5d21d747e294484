"""Wrong checkers, handles, clocks and changes of groups.

They lead to a clear error or to a half that is parked with the reason, and never to a guess.
"""

import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg import errors
from tests.failures.stage import SALE, Stage
from tests.support.broker import positions, seconds
from tests.support.waiting import eventually


@pytest.fixture
def asking(stage: Stage) -> Stage:
    """Producer group `asks` is checked by the SQL function `public.answer`, at most twice."""
    answer(stage, "return 'wait';")
    stage.mq.create_producer_group(
        "asks", check_after="10 ms", max_checks=2, checker="function", checker_target="public.answer"
    )
    return stage


def answer(stage: Stage, body: str, returns: str = "mqpg.verdict") -> None:
    """Replace the checker function."""
    stage.sql.execute("drop function if exists public.answer")
    stage.sql.execute(
        "create function public.answer(handle text, key text, headers jsonb, payload json)"
        f" returns {returns} security definer language plpgsql as $$ begin {body} end $$"
    )


def parked_for(stage: Stage, handle: str, reason: str) -> None:
    """Assert that the half is checked as often as allowed, parked undecided for that reason, and
    decided by hand.
    """
    while not stage.parked():
        stage.overdue_now()
        if stage.mq.compensate() and (left := stage.pending()):
            assert reason in left[0].reason
    (row,) = stage.parked()
    assert (row.handle, row.checks) == (handle, 2)
    assert row.reason.startswith("no verdict after 2 checks; the last one: ")
    assert reason in row.reason
    trace = [row.detail.get("reason") or "" for row in stage.sql.call("trace", int(handle.split(".")[2]))]
    assert any(reason in found for found in trace)
    assert stage.decision(handle) is None
    assert stage.mq.settle(handle, "commit", "looked it up") is mqpg.Outcome.COMMITTED


def test_bad_1_checker_that_raises(asking: Stage) -> None:
    answer(asking, "raise exception 'the shop is closed';")
    handle = asking.sql.prepare("orders", '{"id": 1}', "asks")
    parked_for(asking, handle, "public.answer failed: the shop is closed (P0001)")
    assert asking.delivered() == [1]


def test_bad_2_checker_that_hangs(asking: Stage) -> None:
    """The checker is cut off, which counts as a check, and other halves are asked about meanwhile."""
    answer(asking, "perform pg_sleep(case payload ->> 'id' when '1' then 60 else 0 end); return 'commit';")
    hangs, answers = (asking.sql.prepare("orders", f'{{"id": {id}}}', "asks") for id in (1, 2))
    asking.check_back(until=lambda: asking.parked() and asking.decision(answers), check_timeout=1.0)
    (row,) = asking.parked()
    assert (row.handle, row.checks) == (hangs, 2)
    reasons = asking.sql.rows("select reason from mqpg.check_log where event = 'asked' and reason <> 'commit'")
    assert {r.reason for r in reasons} == {"public.answer was cut off: it did not answer in time"}
    assert (asking.decision(hangs), asking.decision(answers)) == (None, ("c", "checker"))
    assert asking.delivered() == [2]


@pytest.mark.parametrize(
    ("body", "returns", "reason"),
    [
        ("return null;", "mqpg.verdict", "answered null"),
        ("return 'perhaps';", "mqpg.verdict", "invalid input value for enum"),
        ("return 'commit';", "text", "does not exist"),
        (None, None, "does not exist"),
    ],
    ids=["null", "no verdict", "another type", "gone"],
)
def test_bad_3_checker_that_answers_nonsense(asking: Stage, body: str | None, returns: str, reason: str) -> None:
    answer(asking, body or "return 'commit';", returns or "mqpg.verdict")
    if body is None:
        asking.sql.execute("drop function public.answer")
    handle = asking.sql.prepare("orders", '{"id": 1}', "asks")
    parked_for(asking, handle, reason)
    assert asking.delivered() == [1]


CHECKERS: dict[str, dict[str, Any]] = {
    "due_checks": {"checker": "due_checks"},
    "ledger": {"checker": "ledger"},
    "function": {"checker": "function", "checker_target": "public.answer"},
    "url": {"checker": "url", "checker_target": "shop"},
}


@pytest.mark.parametrize("before", CHECKERS)
@pytest.mark.parametrize("after", CHECKERS)
def test_bad_4_group_changes_its_checker_with_halves_open(asking: Stage, before: str, after: str) -> None:
    """A change to another ledger is refused, because that ledger does not know the halves and would
    roll them back. A function or an app answers for itself.
    """
    stage = asking
    answer(stage, "return 'commit';")
    stage.mq.create_producer_group("moving", check_after="1 h", **CHECKERS[before])
    handle = stage.sql.prepare("orders", '{"id": 1}', "moving")
    if after in ("ledger", "url") and after != before:
        with pytest.raises(errors.WrongState, match="cannot change while half messages are undecided"):
            stage.mq.alter_producer_group("moving", **CHECKERS[after])
        assert stage.mq.commit(handle) is mqpg.Outcome.COMMITTED
        stage.mq.alter_producer_group("moving", **CHECKERS[after])
        assert stage.delivered() == [1]
        return
    stage.mq.alter_producer_group("moving", **CHECKERS[after])
    stage.mq.compensate()
    stage.overdue_now()
    if after == "due_checks":
        (check,) = stage.mq.due_checks("moving")
        assert stage.mq.commit(check.handle) is mqpg.Outcome.COMMITTED
    else:
        stage.check_back()
    by_whom = {"due_checks": ("c", "producer"), "function": ("c", "checker")}
    assert stage.decision(handle) == by_whom.get(after, ("b", "checker"))
    assert stage.delivered() == ([1] if after in by_whom else [])


@pytest.mark.parametrize("after", ["ledger", "url"])
def test_bad_11_half_whose_prepare_was_open_when_its_group_got_another_ledger(stage: Stage, after: str) -> None:
    """The half is parked with the reason and never rolled back.

    It was not visible at the change, and the new ledger does not know it.
    """
    stage.mq.create_producer_group("moving", check_after="10 ms")
    preparing = stage.broker.session()
    with preparing.transaction():
        handle = preparing.prepare("orders", '{"id": 1}', "moving")
        stage.mq.alter_producer_group("moving", **CHECKERS[after])
    later = stage.sql.prepare("orders", '{"id": 2}', "moving")
    stage.check_back(until=lambda: stage.parked() and stage.decision(later))
    (row,) = stage.parked()
    assert (row.handle, row.checks) == (handle, 0)
    assert "before its group got this ledger" in row.reason
    assert stage.decision(later) == ("b", "checker")
    assert stage.mq.settle(handle, "commit", "the shop has it") is mqpg.Outcome.COMMITTED
    assert stage.delivered() == [1]


def test_bad_5_handle_of_another_broker(
    stage: Stage, new_database: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    """The handle is unknown everywhere, and its ledger row is left to its own broker."""
    with mqpg.connect(new_database()) as other:
        other.create_topic("orders")
        other.create_producer_group("shop")
        foreign = other.prepare("orders", {"id": 1}, "shop")
        with stage.engine.begin() as local:
            stage.ledger.begin(local, foreign)
            local.execute(SALE, {"id": 1})
        assert stage.mq.commit(foreign) is mqpg.Outcome.UNKNOWN
        assert stage.mq.rollback(foreign) is mqpg.Outcome.UNKNOWN
        assert stage.mq.settle(foreign, "commit", "why not") is mqpg.Outcome.UNKNOWN
        assert stage.mq.commit_batch([foreign]) == [(foreign, mqpg.Outcome.UNKNOWN)]
        calls: list[Callable[[], Any]] = [
            lambda: stage.mq.check_wait(foreign),
            lambda: stage.mq.rearm(foreign),
            lambda: stage.mq.local_begin(foreign, conn=stage.sql.conn),
        ]
        for call in calls:
            with pytest.raises(errors.UnknownHandle):
                call()
        assert stage.recover() == 0
        assert foreign not in caplog.text
        assert other.append() == 0
        assert mqpg.TransactionalProducer(other, group="shop", ledger=stage.engine).recover(older_than=seconds(0)) == 1
        assert other.append() == 1


def test_bad_6_clock_that_jumps_ahead_and_back(stage: Stage) -> None:
    """What was due comes early, once.

    Delays and back-offs that begin afterwards are as long as they were meant.
    """
    stage.mq.send("orders", {"id": 1}, delay=1800)
    with stage.jumped("1 hour") as ahead:
        assert ahead.append() == 1
        ahead.send("orders", '{"id": 2}')
        ahead.append()
    assert stage.sql.scalar("select max(due_until) > clock_timestamp() + interval '55 min' from mqpg.tick")
    (first, second) = [m for _ in range(2) for m in stage.mq.receive("readers", "orders", 1)]
    stage.mq.nack(first, "again", 1800)
    stage.mq.ack(second)
    stage.mq.send("orders", {"id": 3}, delay=1800)
    stage.mq.send("orders", {"id": 4}, delay=7200)
    stage.mq.commit(stage.mq.prepare("orders", {"id": 5}, "shop", delay=1800))
    assert stage.delivered() == []
    assert stage.mq.append() == 0
    with stage.jumped("4 hours") as ahead:
        assert ahead.append() == 4
    assert stage.delivered() == sorted([first.payload["id"], 3, 4, 5])


def test_bad_7_clock_that_jumps_back(stage: Stage) -> None:
    """Everything continues, dense and once, and delays count on the time that was."""
    stage.mq.send("orders", {"id": 1}, delay=0.01)
    eventually(lambda: stage.append() or positions(stage.sql, "orders"))
    with stage.jumped("-1 day") as behind:
        behind.send("orders", '{"id": 2}')
        behind.send("orders", '{"id": 3}', delay=seconds(1800))
        assert behind.append() == 1
        handle = behind.prepare("orders", '{"id": 4}', "shop")
        assert behind.commit(handle) == "committed"
        assert behind.append() == 1
    assert stage.delivered() == [1, 2, 4]
    with stage.jumped("31 min") as later:
        assert later.append() == 1
    assert stage.delivered() == [3]
    assert len(positions(stage.sql, "orders")) == 4


def test_bad_8_clock_that_jumps_does_not_decide_a_half(stage: Stage) -> None:
    """The half is asked about too early, and the check-back waits for its open local transaction."""
    stage.mq.alter_producer_group("shop", check_after="1 h", checker="ledger")
    stage.sell_here()
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop")
    local = stage.broker.session()
    with local.transaction():
        local.call("local_begin", handle)
        local.execute("insert into sale values (1)")
        with stage.jumped("1 day") as ahead:
            assert eventually(lambda: ahead.value("compensate")) == 1
        assert stage.events(handle) == ["asked", "waited"]
        assert stage.decision(handle) is None
    assert stage.mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert (stage.sold_here(), stage.delivered()) == ([1], [1])


def test_bad_9_ledger_that_hangs_holds_up_nobody(stage: Stage) -> None:
    """The ledger's table is locked, or its server accepts and never answers.

    Its halves wait, uncounted, and other groups continue.
    """
    stage.mq.create_producer_group("deaf", check_after="10 ms", checker="url", checker_target="deaf")
    stage.mq.create_producer_group("here", check_after="10 ms", checker="ledger")
    early = stage.sql.prepare("orders", "{}", "shop")
    with socket.create_server(("127.0.0.1", 0)) as silent, closing(psycopg.connect(stage.shop_dsn)) as locker:
        url = f"postgresql+psycopg://nobody@127.0.0.1:{silent.getsockname()[1]}/x?connect_timeout=2"
        with stage.compensator(ledgers={"deaf": url, "shop": stage.shop_url}, heartbeat=0.05):
            eventually(lambda: stage.decision(early))
            locker.execute("lock table mqpg_ledger")  # a migration, say
            deaf, locked, here = (stage.sql.prepare("orders", '{"id": 1}', group) for group in ("deaf", "shop", "here"))
            eventually(lambda: stage.decision(here))
            eventually(lambda: stage.looked_at("deaf") and stage.looked_at("shop"))
            assert stage.decision(locked) is None
            assert stage.events(locked)[:2] == ["asked", "waited"]
            locker.close()
            eventually(lambda: (stage.overdue_now(), stage.decision(locked))[1], interval=0.2)
    assert stage.decision(here) == stage.decision(locked) == ("b", "checker")
    assert stage.decision(deaf) is None
    assert {row.checks for row in stage.pending()} <= {0}
    assert stage.parked() == []


def test_bad_10_ledger_that_nobody_configured(stage: Stage) -> None:
    """The halves wait, no check is counted, and the compensator's row says why."""
    stage.mq.create_producer_group("lost", check_after="10 ms", checker="url", checker_target="nowhere")
    handle = stage.sql.prepare("orders", '{"id": 1}', "lost")
    told = "select detail #>> '{ledgers,nowhere,reason}' from mqpg.worker where role = 'compensator'"
    with stage.compensator(heartbeat=0.05):
        eventually(lambda: any(row[0] for row in stage.sql.rows(told)))
    (reason,) = {row[0] for row in stage.sql.rows(told)}
    assert reason == (
        'no compensator knows the ledger nowhere: start "mqpg worker" with --ledger nowhere=URL or with the variable'
        " MQPG_LEDGER_NOWHERE=URL"
    )
    assert stage.events(handle) == []
    assert stage.mq.commit(handle) is mqpg.Outcome.COMMITTED
    assert stage.delivered() == [1]
