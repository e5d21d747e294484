"""MNS transaction queues: eight steps, the failure analysis A to D, and the rules between them.

The steps are 1 prepared message, 2 op log with its handle, 3 local transaction, 4 commit or
rollback, 5 op log confirmed, 6 receive, 7 process, 8 delete. A reads an overdue op log, B asks
about the local transaction, C decides, D confirms the op log. In mqpg 2 follows from 1 and 5 from
4, so neither can be forgotten.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mqpg
from mqpg import errors
from tests.failures.stage import IMPATIENT, SALE, CrashingStage, Stage, expire, message_id
from tests.support.broker import refused, seconds
from tests.support.waiting import eventually

EXECUTE = "psycopg:Connection.execute"  # sell_here: 1 prepare, 2 local_begin, 3 insert, 4 commit or rollback


def consumed(stage: Stage) -> int:
    """The number of messages that `readers` get."""
    stage.append()
    return len(stage.sql.drain("orders", group="readers"))


def op_log_queue(stage: Stage) -> list[str]:
    return [row[0] for row in stage.sql.rows("select message ->> 'handle' from pgmq.q_mqpg_oplog")]


# the producer


def test_1_2_1_producer_dies_between_prepared_message_and_op_log(here: Stage) -> None:
    """The op-log entry follows from the prepared message, so a crash cannot come between the two."""
    here.killed("sell_here", "before", EXECUTE, nth=2, id=1)
    assert op_log_queue(here) == []
    eventually(lambda: here.mq.compensate() == 1)
    assert [row.op for row in here.sql.rows("select op::text from mqpg.op_log")] == ["b"]
    assert (here.sold_here(), consumed(here), here.pending()) == ([], 0, [])


def test_1_2_2_producer_dies_with_the_op_log_written_and_no_local_transaction(here: Stage) -> None:
    here.mq.alter_producer_group("here", check_after="1 h")
    here.killed("sell_here", "before", EXECUTE, nth=3, id=1, feed=True)
    (half,) = here.pending()
    assert op_log_queue(here) == [half.handle]
    assert here.mq.compensate() == 0
    here.overdue_now()
    here.check_back()
    assert here.decision(half.handle) == ("b", "checker")
    assert here.events(half.handle) == ["asked"]
    assert op_log_queue(here) == []
    assert (here.sold_here(), consumed(here)) == ([], 0)


def test_1_2_3_producer_dies_inside_the_local_transaction(here: Stage) -> None:
    here.killed("sell_here", "after", EXECUTE, nth=3, id=1)
    here.check_back()
    assert (here.sold_here(), consumed(here), here.pending()) == ([], 0, [])


def test_1_2_4_producer_dies_after_a_local_commit(here: Stage) -> None:
    here.killed("sell_here", "before", EXECUTE, nth=4, id=1)
    assert consumed(here) == 0
    here.check_back()
    assert (here.sold_here(), consumed(here), here.pending()) == ([1], 1, [])


def test_1_2_5_producer_dies_after_a_local_rollback(here: Stage) -> None:
    here.killed("sell_here", "before", EXECUTE, nth=4, id=1, fail=True)
    here.check_back()
    assert (here.sold_here(), consumed(here), here.pending()) == ([], 0, [])


@pytest.mark.parametrize("fail", [False, True])
def test_1_2_6_producer_dies_before_it_confirmed_the_op_log(here: Stage, fail: bool) -> None:
    """The decision is the confirmation, so there is no check-back for a decided half."""
    here.killed("sell_here", "after", EXECUTE, nth=4, id=1, fail=fail)
    undecided = here.sql.prepare("orders", "{}", "here")
    here.check_back()
    assert here.decision(undecided) == ("b", "checker")
    asked = here.sql.rows("select distinct message_id from mqpg.check_log")
    assert asked == [(message_id(undecided),)]
    assert (here.sold_here(), consumed(here)) == (([], 0) if fail else ([1], 1))


@pytest.mark.parametrize("sold", [True, False])
@pytest.mark.parametrize(
    ("when", "step"),
    [
        ("before", "mqpg.workers.ledger_checker:LedgerChecker._decide"),
        ("after", "mqpg:Ledger._look_up"),
        ("after", "mqpg.workers.ledger_checker:LedgerChecker._decide"),
    ],
    ids=["A read", "B asked", "C decided"],
)
def test_1_2_7_compensator_dies_between_its_steps(stage: Stage, when: str, step: str, sold: bool) -> None:
    """The next compensator finds the entry after the lease, and a repeated question gets the same
    answer.
    """
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop")
    if sold:
        with stage.engine.begin() as conn:
            stage.ledger.begin(conn, handle)
            conn.execute(SALE, {"id": 1})
    stage.killed("compensator", when, step)
    stage.overdue_now()
    stage.check_back()
    assert stage.decision(handle) == ("c" if sold else "b", "checker")
    assert op_log_queue(stage) == []
    stage.exactly_once([1] if sold else [])


def test_1_2_8_consumer_dies_before_it_deleted_the_message(stage: Stage, tmp_path: Path) -> None:
    """After the visibility time every consumer can get the message again.

    This is at least once, as in MNS (C3).
    """
    stage.sell(1)
    stage.append()
    effects = tmp_path / "effects"
    stage.killed("consume_c3", "before", "mqpg:Client.ack", lease=4.0, effects=str(effects))
    assert effects.read_text() == "1\n"
    assert stage.mq.receive("readers", "orders") == []
    (again,) = eventually(lambda: stage.mq.receive("readers", "orders"))
    assert (again.payload, again.attempt) == ({"id": 1}, 2)
    assert stage.lag("readers") == 1
    stage.mq.ack(again)
    assert stage.lag("readers") == 0


@pytest.mark.chaos
def test_1_2_9_service_unreachable_resumes_where_it_was(crashing: CrashingStage) -> None:
    """All state is in the server.

    What was prepared and sold while it was unreachable is delivered when it is back.
    """
    stage = crashing.stage
    with (
        mqpg.connect(stage.dsn, **IMPATIENT) as mq,
        mqpg.TransactionalProducer(mq, group="shop", ledger=stage.engine) as made,
    ):
        with made.transaction("orders", {"id": 1}) as tx:
            tx.execute(SALE, {"id": 1})
            crashing.server.stop("immediate")
        assert tx.outcome is None
        with pytest.raises(errors.ConnectionFailed), made.transaction("orders", {"id": 2}):
            raise AssertionError("no local transaction without a half message")
        crashing.server.start()
        stage.reconnect()
    assert stage.recover() == 1
    stage.exactly_once([1])


# why there are two phases and not one send


@pytest.mark.parametrize("fail", [False, True])
def test_1_2_10_sent_before_the_local_transaction_is_not_seen_early(stage: Stage, fail: bool) -> None:
    try:
        with stage.producer.transaction("orders", {"id": 1}) as tx:
            tx.execute(SALE, {"id": 1})
            assert stage.delivered() == []
            if fail:
                raise ValueError("changed my mind")
    except ValueError:
        assert fail
    stage.exactly_once([] if fail else [1])


@pytest.mark.parametrize("fail", [False, True])
def test_1_2_11_sent_inside_the_local_transaction_shares_its_fate(here: Stage, fail: bool) -> None:
    """Business and queue in one database (T1) share one transaction and one order.

    Nothing is visible before it commits.
    """
    business = here.broker.session()
    with business.transaction() as tx:
        business.execute("insert into sale values (1)")
        business.send("orders", '{"id": 1}')
        assert here.delivered() == []
        tx.force_rollback = fail
    assert here.sold_here() == ([] if fail else [1])
    assert here.delivered() == ([] if fail else [1])


def test_1_2_12_sending_after_the_local_transaction_cannot_be_lost(stage: Stage) -> None:
    """The producer dies between its commit and the send.

    The half message is the trace that a plain send lacks.
    """
    stage.killed("sell", "after", "mqpg._sync.producer.transactional:commit_local", id=1)
    assert stage.sold() == [1]
    assert stage.delivered() == []
    stage.check_back()
    stage.exactly_once([1])


# gaps in the time-outs


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_1_2_13_asked_while_the_local_transaction_runs_means_wait(stage: Stage, end: str) -> None:
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop")
    with stage.engine.connect() as local:
        stage.ledger.begin(local, handle)
        local.execute(SALE, {"id": 1})
        stage.check_back(until=lambda: "waited" in stage.events(handle))
        assert stage.decision(handle) is None
        getattr(local, end)()
    stage.overdue_now()
    stage.check_back()
    assert stage.decision(handle) == ("c" if end == "commit" else "b", "checker")
    stage.exactly_once([1] if end == "commit" else [])


def test_1_2_14_retention_does_not_expire_an_undecided_message(own_stage: Stage) -> None:
    """The retention ends before the commit. The half is copied aside and commits as usual."""
    stage = own_stage
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop", check_after=seconds(3600))
    expire(stage, handle)
    assert stage.sql.scalar("select count(*) from mqpg.held where kind = 'h'") == 1
    with stage.engine.begin() as local:
        stage.ledger.begin(local, handle)
        local.execute(SALE, {"id": 1})
    assert stage.recover() == 1
    stage.exactly_once([1])


def test_1_2_15_retention_shorter_than_the_check_back_is_refused(stage: Stage) -> None:
    stage.mq.create_topic("brief", retention="1 min")
    with pytest.raises(errors.InvalidArgument, match=r"check_after must lie within the topic's retention of 00:01:00"):
        stage.mq.prepare("brief", 1, "shop", check_after="2 min")
    with pytest.raises(errors.InvalidArgument, match="delay must lie within"):
        stage.mq.prepare("brief", 1, "shop", delay="2 min")
    with pytest.raises(errors.InvalidArgument, match="check_after must lie within"):
        stage.mq.prepare_batch("brief", [1], "shop", check_after="2 min")
    stage.mq.create_producer_group("slow", check_after="2 min")
    for prepare in (partial(stage.mq.prepare, "brief", 1), partial(stage.mq.prepare_batch, "brief", [1])):
        with pytest.raises(errors.InvalidArgument, match="check_after must lie within"):
            prepare("slow")
        assert prepare("slow", check_after="10 s")


def test_1_2_16_not_found_is_final_for_a_local_transaction_that_comes_late(stage: Stage) -> None:
    """The fence needs no guess. MNS needs an op-log delay that is longer than every transaction."""
    handle = stage.sql.prepare("orders", '{"id": 1}', "shop")
    stage.check_back()
    assert stage.decision(handle) == ("b", "checker")
    with stage.engine.connect() as late, pytest.raises(errors.Fenced):
        stage.ledger.begin(late, handle)
    stage.exactly_once([])


def test_1_2_17_handle_is_decided_once_and_repeats_are_harmless(stage: Stage) -> None:
    kept, dropped = (stage.sql.prepare("orders", f'{{"id": {id}}}', "shop") for id in (1, 2))
    assert [stage.mq.commit(kept) for _ in range(3)] == ["committed", "already_committed", "already_committed"]
    assert stage.mq.rollback(kept) == "already_committed"
    assert [stage.mq.rollback(dropped) for _ in range(2)] == ["rolled_back", "already_rolled_back"]
    assert stage.mq.commit(dropped) == "already_rolled_back"
    assert stage.delivered() == [1]


def test_1_2_18_checker_that_does_not_know_yet_says_so(stage: Stage) -> None:
    """MNS's checker answers yes or no.

    In mqpg it may also answer wait, which asks again and does not count as a check.
    """
    stage.mq.create_producer_group("app", check_after="10 ms", max_checks=1)
    handle = stage.sql.prepare("orders", '{"id": 1}', "app")
    for _ in range(3):
        (due,) = eventually(lambda: stage.mq.due_checks("app"))
        assert (due.handle, due.attempt) == (handle, 1)
        stage.mq.check_wait(handle, 0)
        assert stage.decision(handle) is None
    assert stage.events(handle) == ["asked", "waited"] * 3
    assert stage.mq.commit(handle) == "committed"
    assert stage.delivered() == [1]


def test_1_2_19_commit_whose_own_retries_fail_is_left_to_the_op_log(stage: Stage) -> None:
    """The producer used up its retries and never comes back. The check-back commits."""
    with stage.through_proxy(**IMPATIENT) as (cut, mq):
        cut.cut_at(b"mqpg.commit", forward=False, stay_down=True)
        handle = stage.sell(1, producer=mqpg.TransactionalProducer(mq, group="shop", ledger=stage.engine))
    stage.check_back()
    assert stage.decision(handle) == ("c", "checker")
    stage.exactly_once([1])


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda mq: mq.receive("readers", "orders", lease=0), "lease"),
        (lambda mq: mq.receive("readers", "orders", 0), "max_messages"),
        (lambda mq: mq.create_topic("t", retention="-1 s"), "retention"),
        (lambda mq: mq.create_topic("t", queues=0), "queues"),
        (lambda mq: mq.create_producer_group("g", check_after="0"), "check_after"),
        (lambda mq: mq.create_producer_group("g", max_checks=0), "max_checks"),
        (lambda mq: mq.create_producer_group("g", on_exhausted="guess"), "on_exhausted"),
        (lambda mq: mq.send("orders", 1, delay="-1 s"), "delay"),
        (lambda mq: mq.due_checks("shop", lease=0), "lease"),
        (lambda mq: mq.due_checks("shop", 0), "max_messages"),
    ],
)
def test_1_2_20_attributes_out_of_range_are_refused(stage: Stage, call: Any, complaint: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=complaint):
        call(stage.mq)


def test_1_2_21_receipt_is_worth_nothing_once_the_message_was_visible_again(stage: Stage) -> None:
    """A receipt is worth nothing after use, stale after a take-over, and never valid for another consumer's
    delivery.
    """
    stage.sell(1)
    stage.append()
    (first,) = stage.mq.receive("readers", "orders", lease=0.05)
    (second,) = eventually(lambda: stage.mq.receive("readers", "orders"))
    for late in (stage.mq.ack_delivery, lambda receipt: stage.mq.extend(receipt, 10), stage.mq.release):
        with pytest.raises(errors.StaleReceipt):
            late(str(first.receipt))
    stage.mq.ack(second)
    stage.mq.ack(second)  # changes nothing
    with pytest.raises(errors.SpentReceipt):
        stage.mq.release(str(second.receipt))


def test_1_2_22_late_prepared_transaction_meets_the_fence_uncommitted(here: Stage) -> None:
    """The local transaction begins while the checker's own transaction is open.

    It waits, then fails as a whole.
    """
    handle = here.sql.prepare("orders", "{}", "here", check_after=seconds(3600))
    here.mq.compensate()
    here.overdue_now()
    checker, local = here.broker.session(), here.broker.session()
    with checker.transaction():
        assert checker.value("compensate") == 1
        begun = here.broker.background(_sell_late, local, handle)
        here.broker.wait_blocked(local)
    with refused("MQ017"):
        begun.result(45)
    assert (here.sold_here(), consumed(here)) == ([], 0)


def _sell_late(local: Any, handle: str) -> None:
    with local.transaction():
        local.call("local_begin", handle)
        local.execute("insert into sale values (1)")
