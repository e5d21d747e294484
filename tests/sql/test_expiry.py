"""Halves that nobody decides end by the expire_after of their producer group, and pin nothing for ever."""

from typing import Any

import pytest

from tests.support.broker import Broker, Session, refused, seconds
from tests.support.halves import ANSWER, decided, decision, enqueue, parked
from tests.support.retention import gone, keep, retain, roll
from tests.support.waiting import eventually

SOON = seconds(0.01)


@pytest.fixture
def expiring(mq: Session) -> Session:
    """A broker with groups whose halves are checked and expire after 10 ms, one of each checker."""
    mq.execute(ANSWER)
    made: dict[str, dict[str, object]] = {
        "app": {},
        "led": {"checker": "ledger"},
        "asks": {"checker": "function", "checker_target": "public.answer"},
        "far": {"checker": "url", "checker_target": "shop"},
    }
    for name, named in made.items():
        mq.call("create_producer_group", name, check_after=SOON, expire_after=SOON, **named)
    return mq


def events(mq: Session, handle: str) -> list[str]:
    return [row.event for row in mq.call("trace", int(handle.split(".")[2]))]


def expired(mq: Session) -> list[Any]:
    return mq.rows("select handle, producer_group, topic, outcome::text, reason from mqpg.half_expired")


def pass_time(mq: Session, interval: str) -> None:
    """Let so much time pass for the halves that wait, and end every lease and back-off."""
    mq.execute(
        "update pgmq.q_mqpg_oplog set enqueued_at = enqueued_at - %s::interval,"
        " vt = least(vt, clock_timestamp() - interval '1 ms')",
        interval,
    )
    mq.execute("update pgmq.a_mqpg_oplog set enqueued_at = enqueued_at - %s::interval", interval)


# without a checker


def test_a_half_that_no_app_asks_about_is_rolled_back_and_counted(expiring: Session) -> None:
    handle = expiring.prepare("one", "1", "app")
    assert decided(expiring, handle) == ("b", "expiry")
    assert expiring.rows("select from mqpg.half_pending") == []
    assert expiring.scalar("select count(*) from pgmq.q_mqpg_oplog") == 0
    assert [tuple(row) for row in expired(expiring)] == [
        (handle, "app", "one", "rolled_back", "undecided for longer than 00:00:00.01")
    ]
    assert events(expiring, handle) == ["prepared", "expired", "decided"] or events(expiring, handle) == [
        "prepared",
        "decided",
        "expired",
    ]
    assert expiring.commit(handle) == "already_rolled_back"
    with refused("MQ017", "check-back came first"):
        expiring.call("local_begin", handle)


def test_a_half_of_the_outbox_kind_ends_after_seven_days_by_default(mq: Session) -> None:
    """Nobody polls for its group, and its local transaction never was (a merged PREPARE)."""
    mq.call("create_producer_group", "outbox", check_after=SOON)
    handle = mq.prepare("one", "1", "outbox")
    enqueue(mq)
    pass_time(mq, "6 days 23 hours")
    assert mq.value("compensate") == 0
    pass_time(mq, "1 hour")
    assert mq.value("compensate") == 1
    assert decision(mq, handle) == ("b", "expiry")


@pytest.mark.parametrize("never", [None, "100 years"])
def test_a_group_may_keep_its_halves_for_ever(mq: Session, never: str | None) -> None:
    mq.call("create_producer_group", "patient", check_after=SOON, expire_after=never)
    mq.call("create_producer_group", "patient", check_after=SOON, expire_after=None)  # the same
    mq.call("create_producer_group", "changed", check_after=SOON, expire_after=SOON)
    mq.call("alter_producer_group", "changed", expire_after="1000 years")
    handles = [mq.prepare("one", "1", group) for group in ("patient", "changed")]
    enqueue(mq)
    pass_time(mq, "90 years")
    assert mq.value("compensate") == 0
    assert [decision(mq, handle) for handle in handles] == [None, None]
    mq.call("alter_producer_group", "changed", expire_after=seconds(60))
    assert mq.value("compensate") == 1
    assert [decision(mq, handle) for handle in handles] == [None, ("b", "expiry")]


def test_expire_after_is_compared_and_validated(mq: Session) -> None:
    mq.call("create_producer_group", "days", expire_after="7 days")
    mq.call("create_producer_group", "days")
    with refused("MQ011"):
        mq.call("create_producer_group", "days", expire_after="8 days")
    for call in ("create_producer_group", "alter_producer_group"):
        with refused("MQ001", "expire_after"):
            mq.call(call, "days", expire_after="1 ms")


def test_a_half_that_its_app_keeps_waiting_for_does_not_expire(expiring: Session) -> None:
    handle = expiring.prepare("one", "1", "app")
    eventually(lambda: expiring.call("due_checks", "app"))
    expiring.call("check_wait", handle, "1 hour")
    expiring.value("compensate")
    assert decision(expiring, handle) is None


def test_a_half_of_a_group_that_was_dropped_is_parked(mq: Session, broker: Broker) -> None:
    mq.call("create_producer_group", "brief", check_after=SOON)
    with broker.transaction() as sender:
        handle = sender.prepare("one", "1", "brief")
        mq.call("drop_producer_group", "brief")
    enqueue(mq)
    pass_time(mq, "8 days")
    assert parked(mq, handle).endswith("the ledger of a group that was dropped")
    pass_time(mq, "80 years")
    assert mq.value("compensate") == 0
    assert decision(mq, handle) is None


# the ledger of this database


@pytest.mark.parametrize("group", ["app", "asks"])
def test_a_local_row_here_wins_over_the_expiry(expiring: Session, group: str) -> None:
    handle = expiring.prepare("one", '"sold"', group)
    expiring.call("local_begin", handle)
    op, by = decided(expiring, handle)
    assert (op, by) == ("c", "expiry")
    assert [row.outcome for row in expired(expiring)] == ["committed"]
    assert [m.payload for m in expiring.delivered("one")] == ["sold"]


def test_an_expired_half_of_a_ledger_group_is_ruled_by_its_fence(expiring: Session) -> None:
    handle = expiring.prepare("one", "1", "led")
    assert decided(expiring, handle) == ("b", "checker")
    with refused("MQ017"):
        expiring.call("local_begin", handle)


@pytest.mark.parametrize("group", ["app", "asks", "led"])
def test_an_open_local_transaction_is_waited_for(expiring: Session, broker: Broker, group: str) -> None:
    handle = expiring.prepare("one", "1", group)
    with broker.transaction() as local:
        local.call("local_begin", handle)
        for _ in range(3):
            enqueue(expiring)
            expiring.value("compensate")
        assert decision(expiring, handle) is None
    enqueue(expiring)
    assert decided(expiring, handle)[0] == "c"


# a SQL function


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("wait", ("b", "expiry")),
        ("boom", ("b", "expiry")),
        ("commit", ("c", "checker")),
        ("rollback", ("b", "checker")),
    ],
)
def test_a_function_is_asked_once_more_before_its_half_expires(
    expiring: Session, answer: str, expected: tuple[str, str]
) -> None:
    handle = expiring.prepare("one", "1", "asks")
    expiring.execute("insert into public.verdicts values (%s, %s)", handle, answer)
    assert decided(expiring, handle) == expected
    assert "asked" in events(expiring, handle)
    if answer == "boom":
        assert "no idea" in expired(expiring)[0].reason


def test_a_half_that_was_parked_without_an_answer_expires_too(expiring: Session) -> None:
    expiring.call("alter_producer_group", "asks", max_checks=1, expire_after="1 hour")
    handle = expiring.prepare("one", "1", "asks")
    parked(expiring, handle)
    assert decision(expiring, handle) is None
    pass_time(expiring, "1 hour")
    assert decided(expiring, handle) == ("b", "expiry")
    assert expiring.rows("select from mqpg.half_parked") == []


def test_rearm_starts_the_time_anew(expiring: Session) -> None:
    expiring.call("alter_producer_group", "asks", max_checks=1, expire_after="1 hour")
    handle = expiring.prepare("one", "1", "asks")
    parked(expiring, handle)
    pass_time(expiring, "1 hour")
    expiring.call("rearm", handle)
    parked(expiring, handle)
    assert decision(expiring, handle) is None


# a ledger in another database


def test_a_half_whose_ledger_is_elsewhere_is_parked_and_not_guessed(expiring: Session) -> None:
    handle = expiring.prepare("one", "1", "far")
    assert (
        parked(expiring, handle) == "undecided for longer than 00:00:00.01; a rollback needs a fence in the ledger shop"
    )
    for _ in range(3):
        expiring.value("compensate")
    assert decision(expiring, handle) is None
    assert events(expiring, handle) == ["prepared", "parked"]
    assert expired(expiring) == []
    (asked,) = expiring.rows("select * from mqpg._parked_halves('far', 10)")
    assert asked[0] == handle
    answer = "select mqpg._answer(%s, 'rollback', 'ledger shop', null)"
    assert expiring.scalar(answer, handle) == "rolled_back"
    assert decision(expiring, handle) == ("b", "checker")
    assert expiring.rows("select * from mqpg._parked_halves('far', 10)") == []


def test_a_half_whose_ledger_stays_away_stays_parked(expiring: Session) -> None:
    """Its local transaction may have committed there, so a rollback would be a guess."""
    handle = expiring.prepare("one", "1", "far")
    parked(expiring, handle)
    pass_time(expiring, "80 years")
    expiring.execute("update pgmq.a_mqpg_oplog set archived_at = archived_at - interval '80 years'")
    assert expiring.value("compensate") == 0
    assert decision(expiring, handle) is None
    assert expired(expiring) == []
    assert expiring.call("settle", handle, "rollback", "the database is gone") is not None
    assert decision(expiring, handle) == ("b", "admin")


def test_a_half_that_was_prepared_under_another_ledger_is_not_asked_there(expiring: Session, broker: Broker) -> None:
    expiring.call("create_producer_group", "moves", check_after=SOON, expire_after=SOON)
    with broker.transaction() as sender:
        handle = sender.prepare("one", "1", "moves")
        expiring.call("alter_producer_group", "moves", checker="url", checker_target="shop")
    parked(expiring, handle)
    assert expiring.rows("select * from mqpg._parked_halves('moves', 10)") == []
    assert expiring.value("compensate") == 0
    assert decision(expiring, handle) is None


# races


def test_an_open_commit_wins_over_the_expiry(expiring: Session, broker: Broker) -> None:
    handle = expiring.prepare("one", "1", "app")
    with broker.transaction() as other:
        assert other.commit(handle) == "committed"
        for _ in range(3):
            expiring.value("compensate")
        assert decision(expiring, handle) is None
    expiring.value("compensate")
    assert decision(expiring, handle) == ("c", "producer")
    assert expired(expiring) == []
    assert expiring.scalar("select count(*) from mqpg.ledger") == 0  # the fence went with the attempt


def test_a_commit_that_meets_an_open_expiry_is_told_that_it_came_late(expiring: Session, broker: Broker) -> None:
    handle = expiring.prepare("one", "1", "app")
    ending, late = broker.session(), broker.session()
    enqueue(expiring)
    pass_time(expiring, "1 s")
    with ending.transaction():
        assert ending.value("compensate") == 1
        racing = broker.blocked(late, late.commit, handle)
    assert racing.result(45) == "already_rolled_back"
    assert decision(expiring, handle) == ("b", "expiry")


@pytest.mark.chaos
def test_an_expiry_that_dies_between_fence_and_ruling_leaves_neither(expiring: Session, broker: Broker) -> None:
    handle = expiring.prepare("one", "1", "app")
    enqueue(expiring)
    pass_time(expiring, "1 s")
    dying = broker.session("begin")
    assert dying.value("compensate") == 1
    assert dying.scalar("select entry from mqpg.ledger where handle = %s", handle) == "fence"
    expiring.execute("select pg_terminate_backend(%s, 5000)", dying.pid)
    assert expiring.rows("select from mqpg.ledger") == []
    assert decision(expiring, handle) is None
    assert decided(expiring, handle) == ("b", "expiry")


# space


@pytest.mark.own_database  # segments roll
class TestSpace:
    @pytest.fixture
    def abandoned(self, brisk: Session) -> Session:
        """Halves of a group that nobody decides for an hour, and no more."""
        for name, named in (("app", {}), ("far", {"checker": "url", "checker_target": "shop"})):
            brisk.call("create_producer_group", name, check_after=SOON, expire_after="1 hour", **named)
        retain(brisk, "1 day", "t")
        retain(brisk, "0 s", "one")
        brisk.execute("update mqpg.producer_group set check_after = '10 ms'")
        return brisk

    @staticmethod
    def prepared(mq: Session, group: str, number: int) -> list[str]:
        mq.execute("update mqpg.topic set retention = '1 day'")
        handles = [row[0] for row in mq.call("prepare_batch", "one", ["1"] * number, group)]
        mq.execute("update mqpg.topic set retention = '0 s'")
        mq.value("compensate")
        return handles

    def test_expired_halves_no_longer_pin_their_segment(self, abandoned: Session) -> None:
        abandoned.execute("update mqpg.settings set value = '2' where name = 'held_limit'")
        handles = self.prepared(abandoned, "app", 5)
        reported = roll(abandoned)
        assert ("pinned", "log", 1) in {row[:3] for row in reported}
        assert any("5 undecided" in row[3] for row in reported)
        pass_time(abandoned, "1 hour")
        eventually(lambda: abandoned.value("compensate") == 0 and decision(abandoned, handles[-1]))
        gone(abandoned, {"commit_log_1", "op_log_1", "check_log_1"}, keep(abandoned))
        assert abandoned.scalar("select count(*) from mqpg.half_expired") == 5
        abandoned.execute("update mqpg.settings set value = '0 s' where name = 'position_jump_keep'")
        assert ("purged", "position_jump") in {row[:2] for row in abandoned.call("_delete_old_rows")}
        assert expired(abandoned) == []

    def test_parked_halves_do_not_pin_the_bodies_of_their_segment(self, abandoned: Session) -> None:
        """They are copied, however many they are, and their decisions wait for whoever settles."""
        abandoned.execute("update mqpg.settings set value = '2' where name = 'held_limit'")
        handles = self.prepared(abandoned, "far", 5)
        assert any("5 undecided" in row[3] for row in roll(abandoned))
        pass_time(abandoned, "1 hour")
        parked(abandoned, handles[-1])
        gone(abandoned, {"commit_log_1"}, keep(abandoned))
        assert abandoned.scalar("select count(*) from mqpg.held") == 5
        assert ("pinned", "log", 1) in {row[:3] for row in keep(abandoned)}
        for handle in handles:
            abandoned.call("settle", handle, "rollback", "the database is gone")
        gone(abandoned, {"op_log_1", "check_log_1"}, keep(abandoned))
        assert abandoned.scalar("select count(*) from mqpg.held") == 0
