"""why(): each cause is found where it is so, and nothing is said where nothing holds a message up."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from mqpg import migrate
from mqpg.values.cause import Cause, Remedy
from mqpg.values.cause_sentences import explain
from mqpg.values.remedies import COMMANDS, as_sql
from tests.support.broker import Broker, Session, make_due, message_id, refused, seconds
from tests.support.servers import temporary_server
from tests.support.waiting import eventually

IN_COMMANDS = ("appender_not_running", "compensator_not_running")
SEATS = {"appender": 1, "compensator": 2}


def why(mq: Session, *about: object) -> list[Any]:
    """What holds something up. Each cause has its sentence, with all facts that this takes."""
    rows = mq.call("why", *about)
    for row in rows:
        remedy = Remedy(**row.remedy) if row.remedy else None
        said = explain(Cause(row.cause, row.detail, remedy, datetime.now(UTC)), as_sql)
        assert said
        assert remedy is None or row.cause in IN_COMMANDS or as_sql(remedy) in said
    return rows


def causes(mq: Session, *about: object) -> list[str]:
    return [row.cause for row in why(mq, *about)]


def only(mq: Session, *about: object) -> Any:
    (row,) = why(mq, *about)
    return row


def held_up(mq: Session, *about: object, cause: str, **detail: object) -> Any:
    """Assert that it is held up by just this, and these facts about it."""
    row = only(mq, *about)
    assert (row.cause, {name: row.detail[name] for name in detail}) == (cause, detail)
    return row


def run(mq: Session, remedy: dict[str, Any], **chosen: object) -> None:
    """Run the statement of a remedy. An argument that is null is for the caller to choose."""
    assert [name for name, value in remedy["arguments"].items() if value is None] == list(chosen)
    mq.execute(as_sql(Remedy(remedy["function"], remedy["arguments"] | chosen)))


def at_work(mq: Session, broker: Broker, role: str, **detail: str) -> Session:
    """A worker of that role has just reported, and sits on its seat as long as the session lives."""
    named = ", ".join(f"'{name}', '{value}'" for name, value in detail.items())
    mq.execute(
        "select mqpg._heartbeat(%s || '-1', %s, 'host', 1, 'active', jsonb_build_object(" + named + "))", role, role
    )
    worker = broker.session()
    if role in SEATS:
        worker.execute("select pg_advisory_lock(1836150837, %s)", SEATS[role])
    return worker


@pytest.fixture
def role(mq: Session, broker: Broker) -> Iterator[Callable[..., Session]]:
    """Makes sessions of roles with some rights: `role("grant_send('one', ROLE)")`."""
    made: list[str] = []

    def make(*grants: str) -> Session:
        made.append(name := f"why_{mq.pid}_{len(made)}")
        mq.execute(f"create role {name}")
        for grant in grants:
            mq.execute(f"select mqpg.{grant}".replace("ROLE", f"'{name}'"))
        return broker.session(f"set role {name}")

    yield make
    for name in made:
        mq.execute(f"drop owned by {name}; drop role {name}")


def test_the_functions_of_all_remedies_take_their_arguments(mq: Session) -> None:
    for name, command in COMMANDS.items():
        overloads = mq.rows(
            "select proargnames from pg_proc where pronamespace = 'mqpg'::regnamespace and proname = %s", name
        )
        wanted = {*command.places, *command.options}
        assert any(wanted <= set(row.proargnames or []) for row in overloads), name


# ids and handles that name nothing


def test_an_unknown_id_or_handle_is_an_error(mq: Session) -> None:
    mq.sent("one")
    handle = mq.prepare("one")
    stranger = handle[:-4] + ("0000" if handle[-4:] != "0000" else "1111")
    with refused("MQ001", "names no message here"):
        mq.call("why", 123456789)
    for name in (stranger, "nonsense", ""):
        with refused("MQ006", "names no half message here"):
            mq.call("why", name)
    with refused("MQ003"):
        mq.call("why", "g", "nowhere")


def test_an_open_transaction_that_may_have_sent_it(mq: Session, broker: Broker) -> None:
    mq.sent("one")
    with broker.transaction() as sender:
        mid = sender.send("one")
        handle = sender.prepare("one")
        for about in (mid, handle):
            row = held_up(mq, about, cause="transaction_open", pid=sender.pid)
            assert (row.detail["sessions"], row.remedy) == (1, None)
            assert row.detail["seconds"] >= 0
    assert causes(mq, mid) == ["appender_not_running"]


# half messages


def test_an_undecided_half_says_when_it_is_checked(mq: Session) -> None:
    handle = mq.prepare("one")
    row = held_up(mq, handle, cause="half_undecided", producer_group="pg", checker="due_checks")
    assert row.detail["check_at"] > row.detail["prepared_at"]
    assert row.remedy is None
    assert mq.call("why", message_id(handle)) == mq.call("why", handle)
    mq.rollback(handle)
    held_up(mq, handle, cause="half_rolled_back", by="producer")


def test_an_overdue_half_without_a_compensator(mq: Session, broker: Broker) -> None:
    mq.call("create_producer_group", "here", check_after=seconds(0.01), checker="ledger")
    handle = mq.prepare("one", group="here")
    eventually(lambda: causes(mq, handle) == ["half_overdue", "compensator_not_running"])
    overdue, idle = mq.call("why", handle)
    assert (overdue.remedy, idle.remedy) == (None, {"function": "compensate", "arguments": {}})
    at_work(mq, broker, "compensator")
    assert causes(mq, handle) == ["half_overdue"]
    mq.execute("update mqpg.worker set seen_at = seen_at - interval '1 minute'")
    assert causes(mq, handle)[1] == "compensator_not_running"
    eventually(lambda: (run(mq, idle.remedy), causes(mq, handle) == ["half_rolled_back"])[1])


def test_an_open_local_transaction_is_named(mq: Session, broker: Broker) -> None:
    mq.call("create_producer_group", "here", checker="ledger")
    handle = mq.prepare("one", group="here")
    with broker.transaction() as local:
        local.call("local_begin", handle)
        undecided, open_ = mq.call("why", handle)
        assert undecided.cause == "half_undecided"
        assert (open_.cause, open_.detail["pid"]) == ("local_transaction_open", local.pid)
        assert (open_.detail["sessions"], open_.remedy) == (1, None)
    held_up(mq, handle, cause="half_undecided", local_transaction="committed")


def test_a_ledger_that_nobody_serves(mq: Session) -> None:
    mq.call("create_producer_group", "shop", checker="url", checker_target="shop")
    handle = mq.prepare("one", group="shop")
    _, row = mq.call("why", handle)
    assert (row.cause, row.detail["ledger"], row.remedy) == ("ledger_not_served", "shop", None)
    mq.execute("select pg_advisory_lock(1836150846, mqpg._ledger_lock('shop'))")
    assert causes(mq, handle) == ["half_undecided"]


def test_a_parked_half(mq: Session, role: Callable[..., Session]) -> None:
    mq.execute(
        "create function public.mute(handle text, key text, headers jsonb, payload json) returns mqpg.verdict "
        "language sql security definer as 'select null::mqpg.verdict'"
    )
    mq.call("create_producer_group", "here", check_after=seconds(0.01), max_checks=1, checker="function",
            checker_target="public.mute")  # fmt: skip
    handle = mq.prepare("one", group="here")

    def parked() -> bool:
        mq.call("compensate")
        return causes(mq, handle) == ["half_parked"]

    eventually(parked)
    row = only(mq, handle)
    assert "answered null" in row.detail["reason"]
    assert row.remedy == {"function": "rearm", "arguments": {"handle": handle}}
    assert only(mq, message_id(handle)).remedy == row.remedy
    # A reader of the topic knows the id, and must not learn the handle.
    reader = role("grant_receive('g', 'one', ROLE)")
    assert only(reader, message_id(handle)).remedy is None
    run(mq, row.remedy)
    assert "half_parked" not in causes(mq, handle)


# delayed, or not appended


def test_a_delayed_message_says_until_when(mq: Session) -> None:
    mid = mq.send("one", delay=seconds(60))
    held_up(mq, mid, cause="delayed")
    assert mq.call("recall", mid)[0][0]
    assert causes(mq, mid) == ["recalled"]
    handle = mq.prepare("one", delay=seconds(60))
    mq.commit(handle)
    assert causes(mq, handle) == ["delayed"]


def test_a_due_message_waits_for_the_appender(mq: Session) -> None:
    mid = mq.send("one", delay=seconds(0.01))
    eventually(lambda: causes(mq, mid) == ["appender_not_running"])


def test_the_appender_does_not_run_or_is_locked(mq: Session, broker: Broker) -> None:
    mid = mq.send("one")
    assert held_up(mq, mid, cause="appender_not_running").remedy == {"function": "append", "arguments": {}}
    worker = at_work(mq, broker, "appender", last_error="boom")
    held_up(mq, mid, cause="not_appended", last_error="boom")
    worker.execute("select pg_advisory_unlock_all()")  # as when it is killed: its heartbeat is not old yet
    row_without_appender = only(mq, mid)
    assert row_without_appender.cause == "appender_not_running"
    with broker.transaction() as other:
        other.execute("lock table mqpg.append_lock in exclusive mode")
        eventually(lambda: causes(mq, mid) == ["append_locked"])
        assert (only(mq, mid).detail["pid"], only(mq, mid).remedy) == (other.pid, None)
    run(mq, row_without_appender.remedy)
    assert causes(mq, mid) == ["waiting_for_consumer"]


def test_a_call_of_append_that_has_just_begun_is_no_cause(mq: Session, broker: Broker) -> None:
    """The broker was idle, so the call before is long ago."""
    mq.sent("one")
    eventually(lambda: mq.scalar("select max(at) < clock_timestamp() - interval '1 second' from mqpg.tick"))
    with broker.transaction() as other:
        other.execute("lock table mqpg.append_lock in exclusive mode")
        mid = mq.send("one")
        cause = only(mq, mid).cause
        waited = mq.scalar("select clock_timestamp() - max(born_at) > interval '1 second' from mqpg.commit_log")
        assert cause == "appender_not_running" or waited
        eventually(lambda: causes(mq, mid) == ["append_locked"])


def test_a_stranger_on_the_seat_of_the_appender(mq: Session, broker: Broker) -> None:
    other = broker.session("select pg_advisory_lock(1836150837, 1)")
    held_up(mq, mq.send("one"), cause="appender_not_running", pid=other.pid)


# groups


def test_what_is_acknowledged_has_no_row(mq: Session) -> None:
    mid = mq.sent("one")
    held_up(mq, mid, cause="waiting_for_consumer", messages_ahead=0, consumers=0)
    delivery = mq.receive("one", consumer="c1")
    assert held_up(mq, mid, cause="leased", consumer="c1", attempt=1).detail["until"]
    mq.ack(delivery[0].receipt)
    assert causes(mq, mid) == []


def test_no_group_reads_the_topic(mq: Session) -> None:
    mq.call("create_topic", "alone")
    mid = mq.send("alone")
    assert causes(mq, mid) == ["appender_not_running", "no_group"]
    mq.append()
    row = only(mq, mid)
    assert (row.cause, row.remedy["arguments"]) == ("no_group", {"consumer_group": None, "topic": "alone"})
    assert causes(mq, "g", "alone") == ["not_subscribed"]
    run(mq, row.remedy, consumer_group="other")
    assert causes(mq, mid) == ["waiting_for_consumer"]
    run(mq, only(mq, "g", "alone").remedy)
    assert [row.detail["consumer_group"] for row in mq.call("why", mid)] == ["g", "other"]


def test_the_name_of_a_producer_group(mq: Session) -> None:
    row = only(mq, "pg", "one")
    assert (row.cause, row.detail["producer_group"], row.remedy) == ("not_subscribed", "pg", None)


def test_a_broadcast_group_without_a_member(mq: Session) -> None:
    mq.subscribed("news", group="b", mode="broadcast")
    mid = mq.sent("news")
    assert causes(mq, mid) == ["no_member"]
    assert causes(mq, "b", "news") == ["no_member"]
    delivery = mq.receive("news", group="b", consumer="c1")
    assert only(mq, mid).detail["member"] == "c1"
    mq.ack(delivery[0].receipt)
    assert causes(mq, mid) == []


def test_a_paused_topic_and_a_paused_group(mq: Session) -> None:
    mid = mq.sent("one")
    mq.call("pause", "one")
    assert causes(mq, mid) == ["topic_paused"]
    mq.call("pause", "one", "g")
    assert causes(mq, mid) == causes(mq, "g", "one") == ["topic_paused", "group_paused"]
    run(mq, mq.call("why", mid)[0].remedy)
    run(mq, held_up(mq, mid, cause="group_paused").remedy)
    assert causes(mq, mid) == ["waiting_for_consumer"]


@pytest.mark.parametrize("passed", [False, True])
def test_a_filter_that_does_not_choose_it(mq: Session, passed: bool) -> None:
    mq.subscribed("f", filter="$.amount > 10 && $headers.eu == true")
    mid = mq.sent("f", payload='{"amount": 5, "other": 1}', tag="blue", headers='{"eu": true}')
    if passed:
        assert mq.receive("f") == []
    row = held_up(mq, mid, cause="filtered_out", values={'$."amount"': [5], '$"headers"."eu"': [True]}, tag="blue")
    assert "amount" in row.detail["filter"]
    run(mq, row.remedy, filter="$.amount > 1")


def test_a_tag_that_does_not_choose_it_and_a_filter_that_was_replaced(mq: Session) -> None:
    mq.subscribed("f", tags=["red"])
    blue, red = mq.sent("f", tag="blue"), mq.sent("f", tag="red")
    delivery = mq.receive("f")
    assert [m.message_id for m in delivery] == [red]
    mq.ack(delivery[0].receipt)
    run(mq, held_up(mq, blue, cause="filtered_out", tags=["red"], tag="blue").remedy, tags=["blue"])
    assert causes(mq, blue) == ["filtered_out"]
    assert causes(mq, red) == []


def test_a_filter_that_was_removed_leaves_nothing_to_change(mq: Session) -> None:
    mq.subscribed("f", filter="$.amount > 10")
    mid = mq.sent("f", payload='{"amount": 5}')
    assert mq.receive("f") == []
    mq.call("alter_subscription", "g", "f", filter="true")
    row = only(mq, mid)
    assert (row.cause, row.remedy) == ("filtered_out", None)


def test_a_retry_that_waits_and_a_dead_letter(mq: Session) -> None:
    mq.subscribed("r", max_attempts=2, retry_delay=seconds(600))
    mid = mq.sent("r")
    delivery = mq.receive("r")
    mq.nack(delivery[0].receipt, [mid], reason="no stock")
    held_up(mq, mid, cause="retry_due", next_attempt=2, reason="no stock")
    make_due(mq)
    eventually(lambda: causes(mq, mid) == ["retry_due", "appender_not_running"])
    mq.append()
    held_up(mq, mid, cause="waiting_for_consumer", queue_id=-1)
    delivery = mq.receive("r")
    assert only(mq, mid).cause == "leased"
    mq.nack(delivery[0].receipt, [mid], reason="still none")
    row = held_up(mq, mid, cause="dead_letter", reason="still none", attempts=2)
    assert row.remedy["arguments"]["message_ids"] == [mid]
    run(mq, row.remedy)
    mq.append()
    mq.ack(mq.receive("r")[0].receipt)
    assert causes(mq, mid) == []


def test_a_discarded_dead_letter(mq: Session) -> None:
    mq.subscribed("r", max_attempts=1)
    mid = mq.sent("r")
    mq.nack(mq.receive("r")[0].receipt, [mid], reason="bad")
    mq.call("discard_dead_letters", "g", "r")
    assert only(mq, mid).cause == "discarded"
    mq.call("seek", "g", "r", "earliest")
    assert causes(mq, mid) == ["waiting_for_consumer"]
    mq.ack(mq.receive("r")[0].receipt)
    assert causes(mq, mid) == []


def test_behind_a_key(mq: Session) -> None:
    mq.subscribed("k", on_failure="block_key", retry_delay=seconds(60))
    first, second = mq.sent_batch("k", ["1", "2"], keys=["a", "a"])
    mq.nack(mq.receive("k")[0].receipt, [first], reason="no stock")
    held_up(mq, first, cause="retry_due", next_attempt=2, reason="no stock")
    assert held_up(mq, second, cause="behind_key", key="a", blocked_by_offset=0).remedy is None
    assert causes(mq, "g", "k") == ["behind_key"]


def test_behind_a_message_that_blocks_its_queue(mq: Session) -> None:
    mq.subscribed("k", on_failure="block_queue", retry_delay=seconds(60))
    first, second = mq.sent_batch("k", ["1", "2"])
    mq.nack(mq.receive("k")[0].receipt, [first], reason="no stock")
    assert only(mq, first).cause == "retry_due"
    row = held_up(mq, second, cause="queue_blocked", queue_offset=0, message_id=first, attempt=1, reason="no stock")
    assert row.detail["until"]
    assert causes(mq, "g", "k") == ["queue_blocked"]


@pytest.mark.parametrize("leave_out", [False, True])
def test_a_message_that_blocks_its_queue_is_tried_at_once_or_left_out(mq: Session, leave_out: bool) -> None:
    mq.subscribed("k", queues=2, on_failure="block_queue", retry_delay=seconds(6000))
    first, second = mq.sent_batch("k", ["1", "2"], keys=["a", "a"])
    mq.nack(mq.receive("k")[0].receipt, [first], reason="no stock")
    assert mq.receive("k") == []
    row = only(mq, "g", "k")
    assert row.detail["acknowledged_ahead"] == 0
    offset = int(row.remedy["arguments"]["target"])
    assert (offset, row.detail["queue_offset"]) == (0, 0)
    assert only(mq, first).cause == "retry_due"
    for about in ((first,), (second,)):
        assert only(mq, *about).remedy == row.remedy
    if leave_out:
        row.remedy["arguments"]["target"] = str(offset + 1)
    run(mq, row.remedy)
    assert [one.message_id for one in mq.receive("k")] == [first, second][leave_out:]
    if leave_out:
        assert causes(mq, first) == ["skipped"]


def test_no_seek_is_named_that_would_leave_out_an_earlier_message(mq: Session) -> None:
    mq.subscribed("k", on_failure="block_queue", retry_delay=seconds(60))
    _, second = mq.sent_batch("k", ["1", "2"])
    mq.nack(mq.receive("k", lease=seconds(0.05))[0].receipt, [second])
    (row,) = eventually(lambda: [one for one in mq.call("why", "g", "k") if one.cause == "queue_blocked"])
    assert row.detail["message_id"] == second
    assert row.remedy is None


def test_too_many_deliveries_of_consumers_with_and_without_a_name(mq: Session) -> None:
    mq.call("alter_subscription", "g", "one", mode="shared")
    mq.sent_batch("one", ["1"] * 65)
    first = mq.receive("one", max_messages=1)
    mq.receive("one", max_messages=1, consumer="c2")
    for _ in range(62):
        mq.receive("one", max_messages=1)
    row = held_up(mq, "g", "one", cause="too_many_deliveries", deliveries=64)
    assert row.detail["holders"] == [{"consumer": None, "deliveries": 63}, {"consumer": "c2", "deliveries": 1}]
    mq.ack(first[0].receipt)
    mq.receive("one", max_messages=1)
    assert only(mq, "g", "one").detail["acknowledged_ahead"] == 0


def test_a_full_queue_says_whose_it_is_and_what_frees_it(mq: Session, broker: Broker) -> None:
    mq.call("alter_subscription", "g", "one", mode="shared")
    mq.sent_batch("one", ["1"] * 70)
    got = [mq.receive("one", max_messages=1, consumer="mailer-7", lease=seconds(3000))[0] for _ in range(64)]
    for one in got[1:3]:
        mq.ack(one.receipt)
        mq.receive("one", max_messages=1, consumer="mailer-7", lease=seconds(9000))
    row = only(mq, "g", "one")
    assert row.detail["holders"] == [{"consumer": "mailer-7", "deliveries": 64}]
    assert "consumers_at_work" not in row.detail
    assert (row.detail["deliveries"], row.detail["acknowledged_ahead"]) == (64, 2)
    assert row.detail["delivered_at"] < row.detail["until"] < row.detail["last_until"]
    at_work(mq, broker, "consumer", consumer="mailer-7", consumer_group="g", topic="one")
    assert only(mq, "g", "one").detail["consumers_at_work"] == "mailer-7"
    run(mq, row.remedy)
    assert causes(mq, "g", "one") == []
    assert [one.queue_offset for one in mq.receive("one", max_messages=100)] == list(range(70))


def test_behind_an_open_delivery(mq: Session) -> None:
    first, second = mq.sent("one"), mq.sent("one")
    mq.receive("one", max_messages=1, consumer="c1")
    held_up(mq, second, cause="leased", consumer="c1", queue_offset=0)
    held_up(mq, "g", "one", cause="leased", consumer="c1")
    assert only(mq, first).detail["queue_offset"] == 0


def later(mq: Session) -> None:
    """Nothing has moved for two minutes."""
    mq.execute("update mqpg.cursor set at = at - interval '2 minutes'")


def test_behind_the_open_deliveries_of_a_shared_queue(mq: Session) -> None:
    """A consumer has all that is left, so no other one is waited for."""
    mq.call("alter_subscription", "g", "one", mode="shared")
    mq.sent("one")
    got = mq.receive("one", consumer="c1", lease=seconds(3600))
    later(mq)
    held_up(mq, "g", "one", cause="leased", consumer="c1", queue_offset=0)
    mq.sent("one")
    assert causes(mq, "g", "one") == ["waiting_for_consumer"]
    mq.ack(got[0].receipt)
    later(mq)
    assert causes(mq, "g", "one") == ["waiting_for_consumer"]


@pytest.mark.parametrize("key", [None, "a"])
def test_a_group_whose_last_messages_wait_for_their_retry(mq: Session, key: str | None) -> None:
    mq.call("alter_subscription", "g", "one", on_failure="block_key")
    failed = mq.sent("one", key=key)
    mq.nack(mq.receive("one")[0].receipt, [failed], delay=seconds(3600))
    later(mq)
    row = only(mq, "g", "one")
    if key is None:
        assert (row.cause, row.detail["queue_offset"], row.detail["next_attempt"]) == ("retry_due", 0, 2)
    else:
        assert (row.cause, row.detail["blocked_by_offset"], row.detail["key"]) == ("behind_key", 0, "a")
    mq.sent("one", key="b")
    assert causes(mq, "g", "one") == (["behind_key"] if key else []) + ["waiting_for_consumer"]


def test_a_lease_that_ended(mq: Session) -> None:
    mid = mq.sent("one")
    mq.receive("one", lease=seconds(0.01))
    eventually(lambda: causes(mq, mid) == ["waiting_for_consumer"])
    assert only(mq, mid).detail["lease_ended_at"]


def test_a_queue_that_a_transaction_has_locked(mq: Session, broker: Broker) -> None:
    mid = mq.sent("one")
    with broker.transaction() as consumer:
        consumer.receive("one")
        for about in ((mid,), ("g", "one")):
            held_up(mq, *about, cause="queue_locked", pid=consumer.pid)
    assert causes(mq, mid) == ["leased"]


def test_a_prepared_transaction_that_works_on_a_queue_or_holds_its_lock_is_named() -> None:
    with temporary_server(settings={"max_prepared_transactions": "2", "fsync": "off"}) as server:
        dsn = server.create_database("mqpg")
        migrate.upgrade(dsn)
        broker = Broker(dsn)
        mq, consumer = broker.session(), broker.session("begin")
        mq.subscribed("one")
        mid = mq.sent("one")
        consumer.receive("one")
        consumer.execute("prepare transaction 'it''s'")
        for about in ((mid,), ("g", "one")):
            held_up(mq, *about, cause="queue_locked", prepared_transaction="it's")
        mq.execute("rollback prepared 'it''s'")
        key = mq.scalar("select subscription_id * 1024 + 1 from mqpg.subscription")
        consumer.execute(f"begin; create table t(); select pg_advisory_xact_lock(1836150833, {key})")
        consumer.execute("prepare transaction 'foreign'")
        assert [row.remedy for row in mq.rows("select * from mqpg.foreign_locks")] == ["rollback prepared 'foreign';"]
        mq.execute("rollback prepared 'foreign'")
        broker.close()


def test_an_owner_that_is_gone(mq: Session, broker: Broker) -> None:
    mq.subscribed("p", mode="pinned")
    mq.sent("p")
    mq.ack(mq.receive("p", consumer="bill-1")[0].receipt)
    mid = mq.sent("p")
    assert causes(mq, mid) == ["waiting_for_consumer"]
    at_work(mq, broker, "consumer", consumer="bill-1", consumer_group="g", topic="p")
    assert causes(mq, mid) == ["waiting_for_consumer"]
    mq.execute("update mqpg.worker set state = 'stopped'")
    for about in ((mid,), ("g", "p")):
        row = held_up(mq, *about, cause="owner_gone", owner="bill-1")
    run(mq, row.remedy)
    assert causes(mq, mid) == ["waiting_for_consumer"]


def test_what_a_seek_or_a_purge_skipped(mq: Session) -> None:
    mid = mq.sent("one")
    mq.call("seek", "g", "one", "latest")
    run(mq, held_up(mq, mid, cause="skipped", why="seek").remedy)
    assert causes(mq, mid) == ["waiting_for_consumer"]
    mq.nack(mq.receive("one")[0].receipt, [mid], delay=seconds(60))
    assert causes(mq, mid) == ["retry_due"]
    mq.call("purge_topic", "one")
    held_up(mq, mid, cause="skipped", why="purge")


# a group


def test_a_group_that_has_nothing_to_do(mq: Session) -> None:
    assert causes(mq, "g", "one") == []
    mq.ack(mq.receive("one")[0].receipt) if mq.sent("one") else None
    assert causes(mq, "g", "one") == []


def test_a_group_behind_an_appender_that_does_not_run(mq: Session, broker: Broker) -> None:
    mq.send("one")
    assert causes(mq, "g", "one") == ["appender_not_running"]
    at_work(mq, broker, "appender")
    assert causes(mq, "g", "one") == []


def test_a_group_that_nobody_serves(mq: Session) -> None:
    mq.sent("one")
    assert causes(mq, "g", "one") == []  # a moment ago
    mq.execute("update mqpg.cursor set at = at - interval '2 minutes'")
    held_up(mq, "g", "one", cause="waiting_for_consumer", messages=1, consumers=0)


def seek_to_skipped(mq: Session, row: Any) -> None:
    for queue_id, offset in row.detail["skipped_from"].items():
        mq.call("seek", "g", "f", offset, int(queue_id))


def test_a_filter_that_chooses_nothing(mq: Session) -> None:
    mq.subscribed("f", filter="$.amuont > 10")
    for _ in range(3):
        mq.sent("f", payload='{"amount": 50}')
        assert mq.receive("f") == []
    row = held_up(mq, "g", "f", cause="filter_chooses_nothing", skipped=3, skipped_from={"0": "0"}, fields=["amount"])
    assert row.detail["values"] == {'$."amuont"': []}
    assert row.detail["first_skipped_at"] < row.detail["last_skipped_at"]
    run(mq, row.remedy, filter="$.amount > 10")
    seek_to_skipped(mq, row)
    (message, *others) = mq.receive("f")
    assert (message.queue_offset, len(others)) == (0, 2)
    mq.ack(message.receipt)
    mq.sent("f", payload='{"amount": 50}')
    mq.ack(mq.receive("f")[0].receipt)
    assert causes(mq, "g", "f") == []


def test_what_a_filter_skipped_since_it_last_chose_something(mq: Session) -> None:
    mq.subscribed("f", tags=["red"])
    mq.sent("f", tag="red")
    mq.ack(mq.receive("f")[0].receipt)
    for _ in range(21):
        mq.sent("f", tag="blue")
        assert mq.receive("f") == []
    row = only(mq, "g", "f")
    assert (row.detail["skipped"], row.detail["skipped_from"]) == (21, {"0": "1"})
    run(mq, row.remedy, tags=["blue"])
    seek_to_skipped(mq, row)
    assert [one.queue_offset for one in mq.receive("f", max_messages=100)] == list(range(1, 22))


def test_a_filter_that_was_set_long_ago(mq: Session) -> None:
    """The versions of its cursor that would tell when it last chose something are too many."""
    mq.subscribed("f", tags=["red"])
    mq.sent("f", tag="blue")
    assert mq.receive("f") == []
    mq.execute(
        "insert into mqpg.cursor select (k).* from (select c, g from mqpg.cursor c, generate_series(1, 2000) g "
        "where c.action = 'f') as x cross join lateral (select (jsonb_populate_record(x.c, jsonb_build_object("
        "'version', (x.c).version + x.g))) as k) as y"
    )
    row = only(mq, "g", "f")
    assert (row.detail["messages"], "skipped" in row.detail) == (1, False)
    assert row.detail["filter_from"] < row.detail["last_skipped_at"]
    assert "skipped_from" not in row.detail  # a seek would repeat what may have been delivered since then


def test_the_seek_to_skipped_messages_leaves_alone_what_waits_for_its_retry(mq: Session) -> None:
    """A seek of all queues to one time would move the other queue beyond the message that failed."""
    mq.subscribed("f", queues=2, tags=["red"], on_failure="block_key", retry_delay=seconds(6000))
    key = "select min(k::text) from generate_series(1, 100) as k where mqpg._queue_of(k::text, 2) = %s"
    here, there = mq.scalar(key, 0), mq.scalar(key, 1)
    mq.sent("f", tag="red", key=here)
    (failed,) = mq.receive("f")
    mq.nack(failed.receipt, [failed.message_id], reason="no stock")
    other = mq.scalar(key.replace("min", "max"), 0)
    for _ in range(22):
        mq.sent("f", tag="blue", key=other)
        mq.sent("f", tag="blue", key=there)
        assert mq.receive("f") == []
    (row,) = (row for row in mq.call("why", "g", "f") if row.cause == "filter_chooses_nothing")
    assert list(row.detail["skipped_from"]) == ["1"]
    before = mq.rows("select committed from mqpg.subscription_lag where consumer_group = 'g' and queue_id = 0")
    seek_to_skipped(mq, row)
    assert mq.rows("select committed from mqpg.subscription_lag where consumer_group = 'g' and queue_id = 0") == before


def test_a_relay_topic_follows_the_commit(mq: Session) -> None:
    mq.subscribed("relay", kind="relay")
    handle = mq.prepare("relay", headers="{}")
    assert causes(mq, handle) == ["half_undecided"]
    mq.commit(handle)
    assert causes(mq, handle) == ["appender_not_running"]
    mq.append()
    assert causes(mq, handle) == ["waiting_for_consumer"]
    mq.ack(mq.receive("relay")[0].receipt)
    assert causes(mq, handle) == []


def test_a_dropped_topic(mq: Session) -> None:
    mid = mq.sent("one")
    mq.call("drop_topic", "one", force=True)
    assert causes(mq, mid) == ["topic_dropped"]


# rights


def test_a_producer_learns_of_its_halves_and_no_more(mq: Session, role: Callable[..., Session]) -> None:
    mq.call("create_producer_group", "other")
    mine, theirs = mq.prepare("one"), mq.prepare("one", group="other")
    producer = role("grant_produce('pg', ROLE)", "grant_send('one', ROLE)")
    assert causes(producer, mine) == causes(producer, message_id(mine)) == ["half_undecided"]
    with refused("MQ025"):
        producer.call("why", theirs)
    with refused("MQ025"):
        producer.call("why", message_id(theirs))
    with refused("MQ025"):
        producer.call("why", "g", "one")
    mq.commit(mine)
    mq.append()
    assert causes(producer, mine) == []  # it may not know the groups
    mq.execute("select mqpg.grant_receive('g', 'one', %s)", producer.scalar("select current_user::text"))
    assert causes(producer, mine) == ["waiting_for_consumer"]


def test_only_who_may_read_bodies_sees_the_values_that_a_filter_found(
    mq: Session, broker: Broker, role: Callable[..., Session]
) -> None:
    mq.subscribed("f", filter="$.salary > 10")
    mid = mq.sent("f", payload='{"salary": 5}')
    operator = role("grant_operator(ROLE)")
    reader = role("grant_receive('g', 'f', ROLE)")
    assert "values" not in only(operator, mid).detail
    assert only(reader, mid).detail["values"] == {'$."salary"': [5]}
    consumer = broker.session()
    second = mq.sent("f", payload='{"salary": 50}')
    with consumer.transaction():
        consumer.receive("f")
        assert "seconds" not in only(reader, second).detail
        mq.execute("grant pg_read_all_stats to " + operator.scalar("select current_user::text"))
        assert "seconds" in only(operator, second).detail


def test_the_cost_does_not_grow_with_the_log(mq: Session) -> None:
    """No table of the log is scanned: the rows that are read stay few."""
    mid = mq.sent("one")
    for _ in range(20):
        mq.send_batch("one", ["{}"] * 1000)
    mq.append()
    mq.execute("analyze mqpg.commit_log")

    def scanned() -> int:
        mq.execute("select pg_stat_force_next_flush()") if mq.conn.info.server_version >= 150000 else None
        return int(mq.scalar(
            "select coalesce(sum(seq_tup_read), 0) from pg_stat_xact_user_tables where schemaname = 'mqpg' "
            "and relname ~ '^(commit_log|consume_queue|op_log|delayed|cursor|tick|check_log)'"))  # fmt: skip

    with mq.transaction():
        before = scanned()
        assert causes(mq, mid) == ["waiting_for_consumer"]
        assert causes(mq, "g", "one") == []
        assert scanned() - before < 50


# acknowledged()


def test_acknowledged_is_true_after_the_acknowledgement(mq: Session) -> None:
    mid = mq.send("one")
    assert mq.value("acknowledged", mid, "g") is False
    mq.append()
    assert mq.value("acknowledged", mid, "g") is False
    delivery = mq.receive("one")
    assert mq.value("acknowledged", mid, "g") is False
    mq.ack(delivery[0].receipt)
    assert mq.value("acknowledged", mid, "g") is True


def test_acknowledged_of_a_half_of_a_retry_and_of_a_dead_letter(mq: Session) -> None:
    mq.subscribed("r", max_attempts=2, retry_delay=seconds(0.01))
    handle = mq.prepare("r")
    mid = message_id(handle)
    assert mq.value("acknowledged", mid, "g") is False
    mq.commit(handle)
    mq.append()
    for _ in range(2):
        (message,) = eventually(lambda: (mq.append(), mq.receive("r"))[1])
        mq.nack(message.receipt, [mid], reason="bad")
        assert mq.value("acknowledged", mid, "g") is False
    assert mq.scalar("select count(*) from mqpg.dead_letter") == 1
    mq.call("redrive", "g", "r")
    mq.append()
    mq.ack(mq.receive("r")[0].receipt)
    assert mq.value("acknowledged", mid, "g") is True


def test_acknowledged_of_a_retry_whose_row_is_dropped_while_it_is_unread(mq: Session) -> None:
    """After the longest retention keep() drops the rows of what is in a lane, however long the group stands."""
    mid = mq.sent("one")
    mq.nack(mq.receive("one")[0].receipt, [mid], delay=seconds(0))
    mq.append()
    mq.execute("delete from mqpg.delayed")
    assert not mq.value("acknowledged", mid, "g")
    held_up(mq, mid, cause="waiting_for_consumer", queue_id=-1)
    (message,) = mq.receive("one")
    assert causes(mq, mid) == ["leased"]
    mq.ack(message.receipt)
    assert mq.value("acknowledged", mid, "g")
    assert causes(mq, mid) == []


def test_acknowledged_raises_where_the_group_never_gets_it(mq: Session) -> None:
    mq.subscribed("f", filter="$.a > 10", max_attempts=1)
    low, high = mq.sent("f", payload='{"a": 1}'), mq.sent("f", payload='{"a": 11}')
    for _ in range(2):
        with refused("MQ018", "filtered out"):
            mq.call("acknowledged", low, "g")
        delivery = mq.receive("f")
    mq.nack(delivery[0].receipt, [high]) if delivery else None
    rolled_back, recalled = mq.prepare("one"), mq.send("one", delay=seconds(60))
    mq.rollback(rolled_back)
    mq.call("recall", recalled)
    skipped = mq.sent("one")
    mq.call("seek", "g", "one", "latest")
    for mid, word in ((message_id(rolled_back), "rolled back"), (recalled, "recalled"), (skipped, "skipped (seek)")):
        with refused("MQ018", word):
            mq.call("acknowledged", mid, "g")


def test_acknowledged_raises_where_the_group_began_behind_it(mq: Session) -> None:
    mid = mq.sent("one")
    mq.call("subscribe", "late", "one", start="latest")
    mq.call("subscribe", "latecomers", "one", mode="broadcast", start="latest")
    mq.receive("one", group="latecomers", consumer="c1")
    for group in ("late", "latecomers"):
        with refused("MQ018", "began behind it"):
            mq.call("acknowledged", mid, group)
    mq.call("seek", "late", "one", "earliest")
    assert mq.value("acknowledged", mid, "late") is False
    mq.ack(mq.receive("one", group="late")[0].receipt)
    assert mq.value("acknowledged", mid, "late") is True


def test_acknowledged_after_a_purge_of_a_retry_or_a_discard_raises(mq: Session) -> None:
    mq.subscribed("r", max_attempts=2, retry_delay=seconds(0.01))
    purged = mq.sent("r")
    mq.nack(mq.receive("r")[0].receipt, [purged])
    mq.call("purge_topic", "r")
    with refused("MQ018", "skipped (purge)"):
        mq.call("acknowledged", purged, "g")
    dead = mq.sent("r")
    for _ in range(2):
        (message,) = eventually(lambda: (mq.append(), mq.receive("r"))[1])
        mq.nack(message.receipt, [dead])
    mq.call("discard_dead_letters", "g", "r", message_ids=[dead])
    with refused("MQ018", "discarded"):
        mq.call("acknowledged", dead, "g")


def test_acknowledged_in_a_broadcast_group_and_in_a_relay_topic(mq: Session) -> None:
    mq.subscribed("news", group="b", mode="broadcast")
    mid = mq.sent("news")
    assert mq.value("acknowledged", mid, "b") is False
    first, second = (mq.receive("news", group="b", consumer=name) for name in ("c1", "c2"))
    mq.ack(first[0].receipt)
    assert mq.value("acknowledged", mid, "b") is False
    mq.ack(second[0].receipt)
    assert mq.value("acknowledged", mid, "b") is True
    mq.subscribed("relay", kind="relay")
    handle = mq.prepare("relay", headers="{}")
    mq.append()
    mq.ack(mq.receive("relay")[0].receipt)  # PREPARE
    assert mq.value("acknowledged", message_id(handle), "g") is False
    mq.commit(handle)
    mq.append()
    mq.ack(mq.receive("relay")[0].receipt)
    assert mq.value("acknowledged", message_id(handle), "g") is True


def test_acknowledged_refuses_what_it_does_not_know(mq: Session, role: Callable[..., Session]) -> None:
    mid = mq.sent("one")
    for args, code in (
        ((999999, "g"), "MQ001"),
        ((None, "g"), "MQ001"),
        ((mid, "nobody"), "MQ005"),
        ((mid, "a b"), "MQ002"),
    ):
        with refused(code):
            mq.call("acknowledged", *args)
    stranger = role("grant_receive('g', 't', ROLE)")
    with refused("MQ025"):
        stranger.call("acknowledged", mid, "g")
    mine = role("grant_receive('g', 'one', ROLE)")
    assert mine.value("acknowledged", mid, "g") is False
    with refused("MQ025"):
        mine.call("acknowledged", 999999, "g")
