"""Check-backs (T3): fences, waits, exhaustion, park, rearm and settle, fairness between producer groups."""

import time
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, message_id, refused, seconds, tolerating
from tests.support.halves import ANSWER, checks, decision, overdue_now
from tests.support.mutation import mutate
from tests.support.waiting import eventually


@pytest.fixture
def quick(mq: Session) -> Session:
    """A broker with groups that check after 10 ms: led (ledger), asks (function `answer`), app
    (due_checks, two checks).
    """
    mq.execute(ANSWER)
    make_group(mq, "led", checker="ledger", max_checks=2)
    make_group(mq, "asks", checker="function", checker_target="public.answer", max_checks=2)
    make_group(mq, "app", max_checks=2)
    return mq


def make_group(mq: Session, name: str, **options: Any) -> None:
    """Create a producer group that checks after 10 ms."""
    mq.call("create_producer_group", name, check_after=seconds(0.01), **options)


def compensated(mq: Session, times: int = 1) -> None:
    """Compensate until that many halves were worked on."""
    done = 0

    def work() -> bool:
        nonlocal done
        done += int(mq.value("compensate"))
        return done >= times

    eventually(work)


def due(mq: Session, group: str, least: int = 1, **named: object) -> list[Any]:
    """Return what due_checks hands out until it is at least so many halves.

    They may become due one after the other.
    """
    got: list[Any] = []

    def enough() -> bool:
        got.extend(mq.call("due_checks", group, **named))
        return len(got) >= least

    eventually(enough)
    return got


def entries(mq: Session) -> int:
    return int(mq.scalar("select count(*) from pgmq.q_mqpg_oplog"))


def enqueued(mq: Session, *, group: str = "led") -> str:
    """Return a half with its entry that is overdue and not asked about yet."""
    handle = mq.prepare("one", "1", group, check_after=seconds(3600))
    mq.value("compensate")
    overdue_now(mq)
    return handle


# the check queue


def test_an_undecided_half_gets_one_entry_however_often_a_pass_looks(quick: Session) -> None:
    handle = quick.prepare("one", "1", "pg")
    for _ in range(3):
        quick.value("compensate")
        quick.call("due_checks", "app")
    (row,) = quick.rows("select message, vt from pgmq.q_mqpg_oplog")
    assert row.message == {"handle": handle, "message_id": message_id(handle), "producer_group": "pg"}
    due_in = quick.scalar("select extract(epoch from vt - clock_timestamp()) from pgmq.q_mqpg_oplog")
    assert 30 < due_in <= 60.2


def test_a_half_that_commits_late_is_not_forgotten(quick: Session, broker: Broker) -> None:
    with broker.transaction() as slow:
        handle = slow.prepare("one", "1", "led")
        for _ in range(3):
            quick.commit(quick.prepare("one", "1", "led"))
            quick.value("compensate")
    compensated(quick)
    assert decision(quick, handle) == ("b", "checker")


def test_append_feeds_the_queue(quick: Session) -> None:
    quick.prepare("one", "1", "app")
    eventually(lambda: (quick.append(), entries(quick))[1] == 1, interval=0.1)


def test_entries_of_halves_decided_meanwhile_are_deleted_unasked(quick: Session) -> None:
    handle = enqueued(quick)
    assert entries(quick) == 1
    quick.commit(handle)
    assert quick.value("compensate") == 0
    assert entries(quick) == 0
    assert checks(quick, handle) == []


# the fence


@pytest.mark.parametrize(("commits", "op"), [(True, "c"), (False, "b")], ids=["commits", "rolls back"])
def test_an_open_local_transaction_is_waited_for(quick: Session, broker: Broker, commits: bool, op: str) -> None:
    handle = quick.prepare("one", "1", "led")
    local = broker.session()
    with local.transaction() as tx:
        local.call("local_begin", handle)
        for _ in range(4):  # more than max_checks: waits do not count
            compensated(quick)
            overdue_now(quick)
        assert decision(quick, handle) is None
        assert checks(quick, handle) == ["asked", "waited"] * 4
        tx.force_rollback = not commits
    compensated(quick)
    assert decision(quick, handle) == (op, "checker")


def test_a_fence_rolled_back_leaves_the_local_transaction_its_chance(quick: Session, broker: Broker) -> None:
    handle = enqueued(quick)
    local, checker = broker.session(), broker.session()
    with checker.transaction(force_rollback=True):
        assert checker.value("compensate") == 1
        waiting = broker.blocked(local, local.call, "local_begin", handle)
    waiting.result(45)
    overdue_now(quick)
    compensated(quick)
    assert decision(quick, handle) == ("c", "checker")


def test_our_own_fence_from_before_a_crash_means_rollback(quick: Session) -> None:
    handle = quick.prepare("one", "1", "led")
    quick.execute("insert into mqpg.ledger (handle, entry) values (%s, 'fence')", handle)
    compensated(quick)
    assert decision(quick, handle) == ("b", "checker")


def test_the_producer_wins_where_it_decided_while_the_fence_was_set(quick: Session, broker: Broker) -> None:
    """The local transaction committed, the compensator asks, and the producer commits.

    One of the two hears "already".
    """
    mutate(quick, "_check_back", "SET lock_timeout TO '50ms'", "SET lock_timeout TO '60s'")  # for a slow machine
    handle = enqueued(quick)
    quick.call("local_begin", handle)
    with broker.transaction() as producer:
        assert producer.commit(handle) == "committed"
        asking = broker.blocked(quick, quick.value, "compensate")
    assert asking.result(45) == 1
    assert decision(quick, handle) == ("c", "producer")


def test_two_compensators_share_the_work(quick: Session, broker: Broker) -> None:
    handles = [quick.prepare("one", "1", "led", check_after=seconds(3600)) for _ in range(6)]
    quick.value("compensate")
    overdue_now(quick)
    first, second = broker.session(), broker.session()
    with first.transaction():
        assert first.value("compensate", 3) == 3
        assert second.value("compensate", 100) == 3
    assert [decision(quick, h) for h in handles] == [("b", "checker")] * 6


def test_the_local_commit_is_durable_in_a_session_that_chose_otherwise(quick: Session) -> None:
    """The local commit must be on disk, because commit() follows and is on disk.

    The model calls this case async-local.
    """
    quick.execute("set synchronous_commit = off")
    handle = quick.prepare("one", "1", "led")
    with quick.transaction():
        quick.call("local_begin", handle)
        assert quick.scalar("show synchronous_commit") == "on"
    assert quick.scalar("show synchronous_commit") == "off"


def test_compensation_is_durable_in_a_session_that_chose_otherwise(quick: Session) -> None:
    quick.execute("set synchronous_commit = off")
    quick.prepare("one", "1", "led")
    time.sleep(0.15)
    with quick.transaction():
        quick.value("compensate")
        assert quick.scalar("show synchronous_commit") == "on"
    assert quick.scalar("show synchronous_commit") == "off"


# a SQL function is the checker


def test_a_function_with_jsonb_gets_key_headers_and_payload(quick: Session) -> None:
    quick.execute(
        "create or replace function public.picky(h text, k text, hs jsonb, p jsonb) returns mqpg.verdict"
        " security definer language sql as $$ select case when k = 'k' and hs = '{\"h\": 1}' and p = '{\"a\": 1}' then 'commit'"
        " else 'rollback' end::mqpg.verdict $$"
    )
    make_group(quick, "picky", checker="function", checker_target="public.picky")
    handle = quick.prepare("one", '{"a":1}', "picky", key="k", headers='{"h": 1}')
    compensated(quick)
    assert decision(quick, handle) == ("c", "checker")


def test_a_function_that_says_wait_is_asked_again_uncounted(quick: Session) -> None:
    handle = quick.prepare("one", "1", "asks")
    quick.execute("insert into public.verdicts values (%s, 'wait')", handle)
    for _ in range(4):
        compensated(quick)
        overdue_now(quick)
    assert checks(quick, handle) == ["asked", "waited"] * 4
    (row,) = quick.rows("select handle, checks from mqpg.half_pending")
    assert (row.handle, row.checks) == (handle, 0)


def replace_answer(mq: Session, body: str) -> None:
    mq.execute(
        "create or replace function public.answer(handle text, key text, headers jsonb, payload json)"
        f" returns mqpg.verdict security definer language plpgsql as $$ begin {body} end $$"
    )


def test_a_function_whose_assertion_fails_is_no_verdict(quick: Session) -> None:
    """The exception handler `others` catches neither this nor a time-out."""
    replace_answer(quick, "assert false, 'cannot be'; return 'commit';")
    quick.prepare("one", "1", "asks")
    compensated(quick)
    assert "cannot be (P0004)" in quick.scalar("select reason from mqpg.half_pending")


def test_a_function_that_hangs_is_cut_off_counted_and_parked(quick: Session) -> None:
    """The statement_timeout works once in a statement, so the call ends there and keeps what it found."""
    replace_answer(quick, "perform pg_sleep(600); return 'commit';")
    handles = {quick.prepare("one", "1", "asks", check_after=seconds(3600)) for _ in range(2)}
    quick.value("compensate")
    hung = 0
    while len(quick.rows("select from mqpg.half_parked")) < 2:
        overdue_now(quick)
        quick.execute("set statement_timeout = '1s'")
        with tolerating("57014"):  # a slow call is cut off before it asks
            assert quick.value("compensate", 100) >= 1
        quick.execute("set statement_timeout = 0")
        before, hung = hung, quick.scalar("select count(*) from mqpg.check_log where event = 'asked'")
        assert hung <= before + 1
    assert hung == 4
    parked = quick.rows("select * from mqpg.half_parked")
    assert {(row.handle, row.checks) for row in parked} == {(handle, 2) for handle in handles}
    assert {row.reason for row in parked} == {
        "no verdict after 2 checks; the last one: public.answer was cut off: it did not answer in time"
    }
    assert [decision(quick, handle) for handle in handles] == [None, None]


def test_cancelling_a_pass_is_no_check(quick: Session, broker: Broker) -> None:
    replace_answer(quick, "perform pg_sleep(60); return 'commit';")
    handle = enqueued(quick, group="asks")
    asking = broker.session("set statement_timeout = '60s'")
    pass_ = broker.background(asking.value, "compensate")
    eventually(lambda: quick.scalar("select wait_event = 'PgSleep' from pg_stat_activity where pid = %s", asking.pid))
    quick.execute("select pg_cancel_backend(%s)", asking.pid)
    with pytest.raises(psycopg.errors.QueryCanceled):
        pass_.result(45)
    assert checks(quick, handle) == []


def test_the_name_of_a_function_is_never_run_as_sql(quick: Session) -> None:
    quick.prepare("one", "1", "asks")
    quick.execute("update mqpg.producer_group set checker_target = 'f(); drop table public.verdicts; --'")
    compensated(quick)
    assert quick.scalar("select count(*) from public.verdicts") == 0
    assert quick.scalar("select reason from mqpg.half_pending") is not None


def test_back_off_doubles(quick: Session) -> None:
    quick.execute("update mqpg.producer_group set check_after = '10 s' where name = 'asks'")
    handle = quick.prepare("one", "1", "asks", check_after=seconds(0.01))
    quick.execute("insert into public.verdicts values (%s, 'wait')", handle)
    for pause in (10, 20, 40, 80):
        compensated(quick)
        left = float(quick.scalar("select extract(epoch from vt - clock_timestamp()) from pgmq.q_mqpg_oplog"))
        assert pause - 5 < left <= pause
        overdue_now(quick)


@pytest.mark.parametrize("check_after", ["3 hours", "2 days", "100 years"])
def test_a_long_back_off_stays_at_its_cap_however_often_it_doubles(check_after: str, quick: Session) -> None:
    quick.execute("update mqpg.producer_group set check_after = %s where name = 'asks'", check_after)
    handle = quick.prepare("one", "1", "asks", check_after=seconds(0.01))
    quick.execute("insert into public.verdicts values (%s, 'wait')", handle)
    for _ in range(35):
        compensated(quick)
        assert float(quick.scalar("select extract(epoch from vt - clock_timestamp()) from pgmq.q_mqpg_oplog")) <= 3600
        overdue_now(quick)
    quick.call("check_wait", handle)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("update mqpg.producer_group set checker_owner = 'former name'", id="its owner was renamed"),
        pytest.param("alter function public.answer security invoker", id="it lost SECURITY DEFINER"),
        pytest.param("drop function public.answer", id="it was dropped"),
    ],
)
def test_a_function_that_cannot_be_asked_is_no_reason_to_roll_back(quick: Session, change: str) -> None:
    quick.call("alter_producer_group", "asks", max_checks=1, on_exhausted="rollback")
    handle = enqueued(quick, group="asks")
    quick.execute("insert into public.verdicts values (%s, 'commit')", handle)
    quick.execute(change)
    compensated(quick)
    overdue_now(quick)
    compensated(quick)
    assert decision(quick, handle) is None
    (row,) = quick.rows("select reason from mqpg.half_parked")
    assert "public.answer" in row.reason


# an app is the checker


def test_due_checks_counts_attempts_and_parks(quick: Session) -> None:
    handle = quick.prepare("one", '{"a":  1}', "app", key="k", headers='{"h": 1}')
    for attempt in (1, 2):
        (row,) = due(quick, "app", lease=seconds(0.02))
        assert tuple(row) == (handle, "one", "k", {"h": 1}, {"a": 1}, attempt)
    eventually(lambda: quick.call("due_checks", "app") == [] and quick.rows("select from mqpg.half_parked"))
    assert checks(quick, handle) == ["asked", "asked", "parked"]


def test_check_wait_twice_or_late_takes_no_check_back(quick: Session) -> None:
    handle = quick.prepare("one", "1", "app")
    due(quick, "app")
    quick.call("check_wait", handle)
    quick.call("check_wait", handle)
    overdue_now(quick)
    assert due(quick, "app")[0].attempt == 1
    overdue_now(quick)
    quick.call("check_wait", handle, seconds(0))
    assert due(quick, "app")[0].attempt == 2
    assert checks(quick, handle) == ["asked", "waited", "waited late", "asked", "waited late", "asked"]


def test_check_wait_of_a_decided_half_does_nothing(quick: Session) -> None:
    handle = quick.prepare("one", "1", "app")
    due(quick, "app")
    quick.commit(handle)
    quick.call("check_wait", handle)
    assert entries(quick) == 0
    assert checks(quick, handle) == ["asked"]


def test_exhausted_with_policy_rollback(quick: Session) -> None:
    make_group(quick, "rude", max_checks=1, on_exhausted="rollback")
    handle = quick.prepare("one", "1", "rude")
    due(quick, "rude", lease=seconds(0.01))
    eventually(lambda: quick.call("due_checks", "rude") == [] and decision(quick, handle))
    assert decision(quick, handle) == ("b", "checker")


@pytest.mark.parametrize("checker", ["ledger", "due_checks"])  # local_begin() does not look at the checker
@pytest.mark.parametrize(("local", "op"), [(True, "c"), (False, "b")])
def test_exhausted_rollback_with_a_ledger_fences_first(quick: Session, checker: str, local: bool, op: str) -> None:
    make_group(quick, "rude", max_checks=1, on_exhausted="rollback", checker=checker)
    handle = quick.prepare("one", "1", "rude")
    if local:
        quick.call("local_begin", handle)
    due(quick, "rude", lease=seconds(0.01))
    eventually(lambda: quick.call("due_checks", "rude") == [] and decision(quick, handle))
    assert decision(quick, handle) == (op, "checker")
    assert quick.scalar("select entry from mqpg.ledger") == ("local" if local else "fence")


def test_exhausted_rollback_with_a_ledger_elsewhere_parks(quick: Session) -> None:
    make_group(quick, "far", max_checks=1, on_exhausted="rollback", checker="url", checker_target="shop")
    handle = quick.prepare("one", "1", "far")
    due(quick, "far", lease=seconds(0.01))
    eventually(lambda: quick.call("due_checks", "far") == [] and quick.rows("select from mqpg.half_parked"))
    assert decision(quick, handle) is None
    assert "fence" in quick.scalar("select reason from mqpg.half_parked")


# answers of a compensator with an outside ledger


@pytest.mark.parametrize(("verdict", "outcome"), [("commit", "committed"), ("rollback", "rolled_back"), ("wait", None)])
def test_answer(quick: Session, verdict: str, outcome: str | None) -> None:
    handle = quick.prepare("one", "1", "app")
    due(quick, "app")
    answer = "select mqpg._answer(%s, %s::text::mqpg.verdict, 'url shop', 'looked')"
    assert quick.scalar(answer, handle, verdict) == outcome
    assert entries(quick) == (1 if outcome is None else 0)
    assert checks(quick, handle) == ["asked", "waited"][: 2 if outcome is None else 1]
    if outcome:
        assert quick.scalar("select reason from mqpg.op_log") == "url shop: looked"
        assert quick.scalar(answer, handle, "commit") == f"already_{outcome}"


# park, rearm, settle


@pytest.fixture
def parked(quick: Session) -> str:
    handle = quick.prepare("one", "1", "app")
    for _ in range(2):
        due(quick, "app", lease=seconds(0.01))
    eventually(lambda: quick.call("due_checks", "app") == [] and quick.rows("select from mqpg.half_parked"))
    return handle


def test_topic_and_group_of_a_parked_half_are_not_dropped(quick: Session, parked: str) -> None:
    with refused("MQ018", "undecided"):
        quick.call("drop_producer_group", "app")
    with refused("MQ012", "undecided"):
        quick.call("drop_topic", "one")
    quick.rollback(parked)
    quick.call("drop_producer_group", "app")
    quick.call("drop_topic", "one")


def test_rearm_by_two_at_once_enters_it_once(quick: Session, parked: str, broker: Broker, other: Session) -> None:
    with quick.transaction():
        quick.call("rearm", parked)
        racing = broker.blocked(other, other.call, "rearm", parked)
    with refused("MQ018"):
        racing.result(45)
    assert entries(quick) == 1


@pytest.mark.parametrize(("verdict", "outcome"), [("commit", "committed"), ("rollback", "rolled_back")])
def test_settle_a_parked_half(quick: Session, parked: str, verdict: str, outcome: str) -> None:
    assert quick.value("settle", parked, verdict, "asked the shop") == outcome
    assert quick.rows("select from mqpg.half_parked") == []
    assert quick.value("settle", parked, "commit", "again").startswith("already")
    assert checks(quick, parked)[-1] == "settled"
    assert tuple(quick.rows("select decided_by, reason from mqpg.op_log")[0]) == ("admin", "asked the shop")
    by = quick.scalar("select by from mqpg.check_log where event = 'settled'")
    assert by == "role " + quick.scalar("select session_user")
    with refused("MQ018", "decided"):
        quick.call("rearm", parked)


def test_settle_an_open_half(quick: Session) -> None:
    handle = quick.prepare("one", "1", "pg")
    quick.value("compensate")
    assert quick.value("settle", handle, "rollback", "cancelled") == "rolled_back"
    assert entries(quick) == 0
    assert quick.value("settle", "nonsense", "rollback", "x") == "unknown"


# another checker


def test_a_group_gets_no_other_ledger_of_its_kind_while_halves_are_undecided(quick: Session) -> None:
    """Another checker is no change of the rule; tests/failures/test_bad_input.py has each pair of checkers."""
    url = {"checker": "url", "checker_target": "shop"}
    quick.call("create_producer_group", "moves", **url)
    handle = quick.prepare("one", "1", "moves")
    for _ in range(2):
        with refused("MQ018", "undecided"):
            quick.call("alter_producer_group", "moves", checker_target="elsewhere")
        quick.value("compensate")  # in the queue it counts as well
    quick.call("alter_producer_group", "moves", check_after=seconds(5), max_checks=7)
    quick.commit(handle)
    quick.call("alter_producer_group", "moves", checker_target="elsewhere")
    quick.prepare("one", "1", "moves")
    quick.call("alter_producer_group", "moves", checker="function", checker_target="public.answer")
    with refused("MQ018", "undecided"):
        quick.call("alter_producer_group", "moves", **url)


def test_a_group_gets_no_other_ledger_while_a_half_is_parked(quick: Session, parked: str) -> None:
    with refused("MQ018", "undecided"):
        quick.call("alter_producer_group", "app", checker="ledger")
    quick.value("settle", parked, "rollback", "asked the shop")
    quick.call("alter_producer_group", "app", checker="ledger")


def test_a_function_is_asked_about_what_was_prepared_before_its_group_had_another_ledger(
    quick: Session, broker: Broker
) -> None:
    replace_answer(quick, "return 'commit';")
    with broker.transaction() as other:
        handle = other.prepare("one", "1", "app")
        quick.call("alter_producer_group", "app", checker="ledger")
        quick.call("alter_producer_group", "app", checker="function", checker_target="public.answer")
    compensated(quick)
    assert decision(quick, handle) == ("c", "checker")


# fairness


def test_a_dead_group_does_not_slow_the_others(quick: Session, broker: Broker) -> None:
    """200 overdue halves have open local transactions.

    A half of another group is decided after a few calls.
    """
    local = broker.session()
    later = seconds(3600)
    stuck = [row[0] for row in quick.call("prepare_batch", "one", ["1"] * 200, "led", check_after=later)]
    make_group(quick, "lively", checker="ledger")
    with local.transaction():
        for handle in stuck:
            local.call("local_begin", handle)
        handle = enqueued(quick, group="lively")
        calls = 0
        while decision(quick, handle) is None:
            assert calls < 20
            quick.value("compensate", 1)
            calls += 1


def test_one_groups_entries_are_found_by_index(quick: Session) -> None:
    quick.execute(
        "select pgmq.send_batch('mqpg_oplog', array(select jsonb_build_object('handle', '', 'message_id', i,"
        " 'producer_group', 'dead') from generate_series(1, 20000) i), clock_timestamp() - interval '1 h')"
    )
    quick.execute("analyze pgmq.q_mqpg_oplog")
    plan = "\n".join(
        row[0]
        for row in quick.rows(
            "explain select from pgmq.q_mqpg_oplog q where q.message ->> 'producer_group' = 'app'"
            " and q.vt <= clock_timestamp() - interval '1 s' order by q.vt limit 10 for update skip locked"
        )
    )
    assert "q_mqpg_oplog_producer_group" in plan


@pytest.mark.parametrize("group", ["app", "asks", "led"])
@pytest.mark.parametrize("entry", ["{}", '{"handle": null, "message_id": 7}', '{"handle": "no handle"}'])
def test_an_entry_that_mqpg_did_not_write_holds_no_check_up(entry: str, group: str, quick: Session) -> None:
    quick.execute(
        "select pgmq.send('mqpg_oplog', %s::jsonb || jsonb_build_object('producer_group', %s::text),"
        " clock_timestamp() - interval '1 h')",
        entry,
        group,
    )
    handle = enqueued(quick, group=group)
    if group == "app":
        assert [row[0] for row in due(quick, group)] == [handle]
    else:
        quick.execute("insert into public.verdicts values (%s, 'rollback')", handle)
        eventually(lambda: quick.value("compensate") and decision(quick, handle) is not None)


# incarnations


def test_a_handle_stays_the_same_text_through_a_new_incarnation(quick: Session) -> None:
    """The handle is the key of ledgers and fences.

    Another text would fence beside the local transaction.
    """
    handle = quick.value("prepare", "one", "1", "app")
    batch = list(quick.rows("select h from mqpg.prepare_batch('one', array['2', '3'], 'app') h"))
    quick.execute("update mqpg.broker set incarnation = incarnation + 1")
    wanted = {handle, *(row[0] for row in batch)}
    assert {row[0] for row in quick.rows("select handle from mqpg.half_pending")} == wanted
    assert {row[0] for row in due(quick, "app", least=3)} == wanted
    assert quick.value("commit", handle) == "committed"
