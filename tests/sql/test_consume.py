"""Consumption by contract: claims, receipts, leases, retries, dead letters, pinned queues, fetch."""

from typing import Any

import pytest

from tests.support.broker import Broker, Session, fill, ids_of, make_due, refused, seconds, spread
from tests.support.waiting import eventually

LEASE = seconds(0.1)


def again(mq: Session, topic: str = "one", **named: Any) -> list[Any]:
    """Wait until a lease ends or a retry is due, and return the next delivery."""
    return list(eventually(lambda: (mq.append(), mq.receive(topic, **named))[1]))


def dead(mq: Session, topic: str = "one") -> list[Any]:
    return mq.call("dead_letters", "g", topic)


# receive and ack


def test_one_call_has_one_receipt_and_one_queue(mq: Session) -> None:
    spread(mq, 40)
    got = mq.receive("t")
    assert len({m.receipt for m in got}) == 1
    assert len({m.queue_id for m in got}) == 1


@pytest.mark.own_database  # emptying one does not take back what is noted
@pytest.mark.parametrize("noted", [False, True])
def test_messages_on_both_sides_of_a_new_tick_segment_come_in_order(mq: Session, noted: bool) -> None:
    """Before keep() has noted where the queues of the older segment end, and afterwards."""
    before = fill(mq, 2)
    mq.execute("update mqpg.segment set opened_at = opened_at - interval '10 years' where family = 'tick'")
    assert [row.action for row in mq.rows("select * from mqpg._roll_ticks()")][:1] == ["rolled"]
    after = fill(mq, 2)
    if noted:
        mq.execute("update mqpg.segment set closed_at = clock_timestamp() where family = 'tick' and segment_no = 1")
        mq.call("_note_tails")
    open_ticks = mq.scalar("select min(segment_no) from mqpg.segment where family = 'tick' and tails_noted_at is null")
    assert open_ticks == 1 + noted
    got = []
    for most in (1, 3):
        rows = mq.receive("one", max_messages=most)
        got += ids_of(rows)
        mq.ack(rows[0].receipt)
    assert got == before + after
    assert mq.receive("one") == []


def test_exclusive_queue_with_an_open_claim_gives_nothing_to_anyone(mq: Session, broker: Broker) -> None:
    fill(mq, 10)
    assert len(mq.receive("one", max_messages=2)) == 2
    assert mq.receive("one", max_messages=2) == []
    assert broker.session().receive("one", max_messages=2) == []


def test_other_queues_go_on(mq: Session) -> None:
    spread(mq, 40)
    queues = [mq.receive("t")[0].queue_id for _ in range(4)]
    assert sorted(queues) == [0, 1, 2, 3]
    assert mq.receive("t") == []


def test_queue_id_picks_the_queue(mq: Session) -> None:
    spread(mq, 40)
    assert {m.queue_id for m in mq.receive("t", queue_id=2)} == {2}
    assert mq.receive("t", queue_id=2) == []


def test_each_receive_takes_the_queue_that_waited_longest(mq: Session) -> None:
    spread(mq, 40)
    order = []
    for _ in range(8):
        got = mq.receive("t", max_messages=1)
        order.append(got[0].queue_id)
        mq.ack(got[0].receipt)
    assert sorted(order[:4]) == [0, 1, 2, 3]
    assert order[4:] == order[:4]


def test_ack_through_is_inclusive_and_the_rest_stays_claimed(mq: Session) -> None:
    ids = fill(mq, 5)
    receipt = mq.receive("one")[0].receipt
    mq.ack(receipt, through=1)
    assert mq.receive("one") == []
    mq.call("extend", receipt, LEASE)
    got = again(mq)
    assert ids_of(got) == ids[2:]
    assert {m.attempt for m in got} == {2}


def test_start_latest_sees_only_what_comes_after(mq: Session) -> None:
    fill(mq, 3)
    mq.call("subscribe", "late", "one", start="latest")
    ids = fill(mq, 2)
    got = mq.drain("one", group="late")
    assert ids_of(got) == ids
    assert [m.queue_offset for m in got] == [3, 4]


def test_subscribe_again_uses_up_no_id(mq: Session) -> None:
    for _ in range(3):
        mq.call("subscribe", "g", "t")
    mq.call("subscribe", "h", "t")
    assert mq.scalar("select max(subscription_id) - min(subscription_id) from mqpg.subscription") == 2  # g, g, h


def test_subscribe_again_with_equal_arguments_changes_nothing(mq: Session) -> None:
    ids = fill(mq, 2)
    mq.ack(mq.receive("one")[0].receipt, through=0)
    mq.call("subscribe", "g", "one")
    with refused("MQ011"):
        mq.call("subscribe", "g", "one", max_attempts=3)
    mq.call("subscribe", "h", "one")
    assert ids_of(mq.drain("one", group="h")) == ids


def test_unsubscribe_forgets_the_position(mq: Session) -> None:
    ids = fill(mq, 2)
    mq.drain("one")
    mq.call("unsubscribe", "g", "one")
    with refused("MQ005"):
        mq.receive("one")
    mq.call("subscribe", "g", "one")
    assert ids_of(mq.drain("one")) == ids


# leases


def test_extend_prolongs_the_lease(mq: Session) -> None:
    fill(mq, 3)
    receipt = mq.receive("one", lease=LEASE)[0].receipt
    mq.call("extend", receipt, seconds(30))
    mq.execute("select pg_sleep(0.15)")
    assert mq.receive("one") == []
    mq.ack(receipt)


def test_extend_can_shorten(mq: Session) -> None:
    ids = fill(mq, 2)
    mq.call("extend", mq.receive("one")[0].receipt, seconds(0.02))
    assert ids_of(again(mq)) == ids


def test_release_after_partial_ack_gives_back_the_rest(mq: Session) -> None:
    ids = fill(mq, 5)
    receipt = mq.receive("one")[0].receipt
    mq.ack(receipt, through=1)
    mq.call("release", receipt)
    got = mq.receive("one")
    assert ids_of(got) == ids[2:]
    assert {m.attempt for m in got} == {1}


def test_release_keeps_the_attempts_counted_before(mq: Session) -> None:
    fill(mq, 2)
    mq.receive("one", lease=seconds(0.02))
    (m, _) = again(mq)
    assert m.attempt == 2
    mq.call("release", m.receipt)
    assert {m.attempt for m in mq.receive("one")} == {2}


# nack, retry lane, dead letters


@pytest.fixture
def strict(mq: Session) -> Session:
    """Topic `s`, whose group gives three attempts with a short back-off."""
    mq.subscribed("s", max_attempts=3, retry_delay=seconds(0.05))
    return mq


def test_a_retry_comes_by_the_retry_lane_with_its_own_offsets(strict: Session) -> None:
    ids = fill(strict, 4, "s")
    receipt = strict.receive("s")[0].receipt
    strict.nack(receipt, [ids[2], ids[0]], delay=seconds(0))
    assert strict.receive("s") == []  # the rest is still claimed
    strict.ack(receipt)
    got = again(strict, "s")
    assert sorted(ids_of(got)) == [ids[0], ids[2]]
    assert {m.queue_id for m in got} == {-1}
    assert [m.queue_offset for m in got] == [0, 1]
    assert {m.attempt for m in got} == {2}
    strict.ack(got[0].receipt)
    assert strict.receive("s") == []


@pytest.mark.parametrize("delay", ["1 day", "98 years"])
def test_the_back_off_of_a_late_attempt_is_the_longest(strict: Session, delay: str) -> None:
    """The delay cannot be doubled so often."""
    strict.call("alter_subscription", "g", "s", max_attempts=10000, retry_delay=delay)
    (sent,) = fill(strict, 1, "s")
    strict.nack(strict.receive("s")[0].receipt, [sent], delay=seconds(0))
    strict.execute("update mqpg.delayed set attempt = 9999")
    (message,) = again(strict, "s")
    strict.nack(message.receipt, [sent])
    late = "select max(visible_at) - clock_timestamp() - mqpg._seconds(%s) from mqpg.delayed"
    assert abs(strict.scalar(late, delay)) < seconds(60)
    strict.call("create_producer_group", "slow", check_after=delay)
    group = "select producer_group_id from mqpg.producer_group where name = 'slow'"
    assert strict.scalar(f"select mqpg._back_off(({group}), 9999)") == seconds(3600)


def test_nack_of_an_id_outside_the_delivery_is_refused_whole(strict: Session) -> None:
    ids = fill(strict, 4, "s")
    receipt = strict.receive("s", max_messages=2)[0].receipt
    with refused("MQ001", "message_ids"):
        strict.nack(receipt, [ids[0], ids[3]])
    assert strict.scalar("select count(*) from mqpg.delayed") == 0
    strict.ack(receipt)


def test_nack_of_an_id_acked_already_is_refused(strict: Session) -> None:
    ids = fill(strict, 4, "s")
    receipt = strict.receive("s")[0].receipt
    strict.ack(receipt, through=1)
    with refused("MQ001", "message_ids"):
        strict.nack(receipt, [ids[0]])
    strict.nack(receipt, [ids[2]])
    with refused("MQ001", "message_ids"):
        strict.nack(receipt, [ids[2]])


def test_an_expired_claim_does_not_redeliver_what_was_nacked(strict: Session) -> None:
    ids = fill(strict, 5, "s")
    strict.nack(strict.receive("s", lease=seconds(0.05))[0].receipt, [ids[1]], delay=seconds(30))
    got = again(strict, "s")
    assert ids_of(got) == [ids[0], *ids[2:]]
    assert [m.payload for m in got] == [0, 2, 3, 4]


def test_retries_back_off(strict: Session) -> None:
    (message_id,) = fill(strict, 1, "s")
    receipt = strict.receive("s")[0].receipt
    for wait in (0.05, 0.1):
        before = strict.scalar("select clock_timestamp()")
        strict.nack(receipt, [message_id])
        after = strict.scalar("select clock_timestamp()")
        due = strict.scalar("select visible_at from mqpg.delayed order by written_at desc limit 1")
        assert before + seconds(wait) <= due <= after + seconds(wait)
        receipt = again(strict, "s")[0].receipt


@pytest.mark.parametrize("retry_delay", ["3 hours", "100 years"])
def test_a_long_back_off_does_not_grow_beyond_a_time(retry_delay: str, strict: Session) -> None:
    (message_id,) = fill(strict, 1, "s")
    strict.call("alter_subscription", "g", "s", max_attempts=10000, retry_delay=retry_delay)
    strict.nack(strict.receive("s")[0].receipt, [message_id], delay=seconds(0))
    for attempt in (12, 40, 9999):
        strict.append()
        strict.execute("update mqpg.consume_queue set attempts = array[%s]::smallint[] where queue_id = -1", attempt)
        strict.nack(strict.receive("s")[0].receipt, [message_id])
        assert strict.scalar(
            "select visible_at > clock_timestamp() + %s::interval - interval '1 minute' from mqpg.delayed"
            " order by written_at desc limit 1",
            retry_delay,
        )
        make_due(strict)


def test_max_attempts_deliveries_then_dead_letter(strict: Session) -> None:
    ids = fill(strict, 3, "s")
    attempts = []
    for reason in ("one", "two"):
        got = strict.receive("s")
        attempts.append([m.attempt for m in got])
        strict.nack(got[0].receipt, ids, reason=reason)
        strict.execute("select pg_sleep(0.15)")  # both back-offs: all become due in one call
        strict.append()
    for _ in ids:
        got = again(strict, "s")
        attempts.append([m.attempt for m in got])
        strict.nack(got[0].receipt, ids_of(got), reason="three")
    assert attempts == [[1, 1, 1], [2, 2, 2], [3], [3], [3]]
    letters = dead(strict, "s")
    assert sorted(d.message_id for d in letters) == ids
    assert {(d.queue_id, d.attempts, d.reason) for d in letters} == {(0, 3, "three")}
    assert sorted(d.payload for d in letters) == [0, 1, 2]
    strict.execute("select pg_sleep(0.2)")
    strict.append()
    assert strict.receive("s") == []


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_lease_expiry_leads_to_single_delivery_then_dead_letter(strict: Session, mode: str) -> None:
    strict.call("alter_subscription", "g", "s", mode=mode)
    ids = fill(strict, 2, "s")
    seen = []
    while len(dead(strict, "s")) != 2:
        got = again_or_none(strict)
        seen += [(m.message_id, m.attempt, len(got)) for m in got]
        assert len(seen) < 12
    per_id = {i: [(a, n) for m, a, n in seen if m == i] for i in ids}
    for history in per_id.values():
        assert [a for a, _ in history] == [1, 2, 3]
        assert history[-1] == (3, 1)
    assert {d.attempts for d in dead(strict, "s")} == {3}
    later = fill(strict, 1, "s")
    assert ids_of(again(strict, "s")) == later


def again_or_none(mq: Session) -> list[Any]:
    """Return a delivery, or nothing where no claim is left."""
    for _ in range(30):
        mq.append()
        if got := mq.receive("s", lease=seconds(0.01)):
            return got
        if len(dead(mq, "s")) == 2:
            return []
        mq.execute("select pg_sleep(0.01)")
    raise AssertionError("nothing was delivered and nothing died")


def test_a_rolled_back_nack_is_no_nack(strict: Session) -> None:
    ids = fill(strict, 2, "s")
    receipt = strict.receive("s")[0].receipt
    with strict.transaction(force_rollback=True):
        strict.nack(receipt, ids)
    strict.ack(receipt)
    strict.execute("select pg_sleep(0.1)")
    strict.append()
    assert strict.receive("s") == []


# pinned


@pytest.fixture
def pinned(mq: Session) -> Session:
    mq.subscribed("p", queues=2, mode="pinned")
    spread(mq, 20, "p")
    return mq


def test_a_pinned_queue_stays_with_its_owner_whatever_the_lease(pinned: Session) -> None:
    (first, *_) = pinned.receive("p", consumer="a", queue_id=0, lease=seconds(0.02))
    pinned.execute("select pg_sleep(0.05)")
    assert pinned.receive("p", consumer="b", queue_id=0) == []
    assert pinned.receive("p", consumer="a", queue_id=0)[0].queue_offset == first.queue_offset == 0


def test_a_pinned_owner_keeps_the_queue_after_ack(pinned: Session) -> None:
    pinned.ack(pinned.receive("p", consumer="a", queue_id=0, max_messages=1)[0].receipt)
    assert pinned.receive("p", consumer="b", queue_id=0) == []
    assert pinned.receive("p", consumer="a", queue_id=0, max_messages=1)[0].queue_offset == 1


def test_another_member_takes_a_free_queue(pinned: Session) -> None:
    a = pinned.receive("p", consumer="a", max_messages=1)
    b = pinned.receive("p", consumer="b", max_messages=1)
    assert {a[0].queue_id, b[0].queue_id} == {0, 1}
    assert pinned.receive("p", consumer="c") == []


def test_unpin_by_consumer_frees_all_of_its_queues(pinned: Session) -> None:
    for queue in (0, 1):
        pinned.ack(pinned.receive("p", consumer="a", queue_id=queue, max_messages=1)[0].receipt)
    pinned.call("unpin", "g", "p", consumer="b")
    assert pinned.receive("p", consumer="b") == []
    pinned.call("unpin", "g", "p", consumer="a")
    assert len({pinned.receive("p", consumer="b")[0].queue_id for _ in range(2)}) == 2


def test_unpin_makes_an_open_receipt_stale(pinned: Session) -> None:
    old = pinned.receive("p", consumer="a", queue_id=0)[0].receipt
    pinned.call("unpin", "g", "p", queue_id=0)
    assert pinned.receive("p", consumer="b", queue_id=0)[0].queue_offset == 0
    with refused("MQ009"):
        pinned.ack(old)


# fetch


def test_fetch_is_a_pure_read(mq: Session) -> None:
    ids = fill(mq, 10)
    versions = mq.scalar("select count(*) from mqpg.cursor")
    got = mq.call("fetch", "one", 0, 3, 4)
    assert ids_of(got) == ids[3:7]
    assert [m.queue_offset for m in got] == [3, 4, 5, 6]
    assert {m.receipt for m in got} == {None}
    assert mq.scalar("select count(*) from mqpg.cursor") == versions
    assert ids_of(mq.receive("one")) == ids


@pytest.mark.parametrize("tail", [0, 10])
def test_fetch_at_the_tail_is_empty_and_beyond_it_an_error(mq: Session, tail: int) -> None:
    fill(mq, tail)
    assert mq.call("fetch", "one", 0, tail) == []
    with refused("MQ013"):
        mq.call("fetch", "one", 0, tail + 1)
    with refused("MQ001", "from_offset"):
        mq.call("fetch", "one", 0, -1)


def test_fetch_works_in_a_read_only_transaction(mq: Session) -> None:
    ids = fill(mq, 3)
    with mq.transaction():
        mq.execute("set transaction read only")
        assert ids_of(mq.call("fetch", "one", 0, 0)) == ids


# topics


def test_create_topic_again_with_equal_arguments_changes_nothing(mq: Session) -> None:
    mq.call("create_topic", "t", queues=4)
    with refused("MQ011", "alter_topic"):
        mq.call("create_topic", "t", queues=8)
    with refused("MQ011", "alter_topic"):
        mq.call("create_topic", "t", queues=4, retention="1 day")


@pytest.mark.parametrize(
    ("function", "names", "has", "wants", "said"),
    [
        ("create_topic", ["t"], {"queues": 4}, {"queues": 2}, "Repeat the present number"),
        ("create_topic", ["t"], {"queues": 4}, {"queues": 6}, "Repeat the present number"),
        ("create_topic", ["t"], {"queues": 4}, {"queues": 4, "kind": "relay"}, "Use another name"),
        ("subscribe", ["h", "one"], {}, {"mode": "pinned"}, "unsubscribe()"),
        ("subscribe", ["h", "one"], {"mode": "broadcast"}, {"mode": "shared"}, "unsubscribe()"),
        ("subscribe", ["h", "one"], {}, {"start": "latest"}, "seek()"),
        ("subscribe", ["h", "one"], {}, {"mode": "shared"}, "alter_subscription()"),
        ("create_producer_group", ["h"], {}, {"checker": "ledger"}, "alter_producer_group()"),
    ],
)
def test_a_hint_names_a_call_that_can_change_it(
    mq: Session, function: str, names: list[str], has: dict[str, Any], wants: dict[str, Any], said: str
) -> None:
    mq.call(function, *names, **has)
    with refused("MQ011", said):
        mq.call(function, *names, **wants)
    if said.startswith("alter_"):
        mq.call(said.removesuffix("()"), *names, **wants)


def test_a_name_used_again_after_drop_starts_at_zero(mq: Session) -> None:
    fill(mq, 5)
    old = mq.prepare("one", "1")
    mq.call("drop_topic", "one", force=True)
    mq.subscribed("one")
    assert mq.commit(old) in ("unknown", "committed")
    ids = fill(mq, 2)
    got = mq.drain("one")
    assert ids_of(got) == ids
    assert [m.queue_offset for m in got] == [0, 1]
    assert ids_of(mq.call("fetch", "one", 0, 0)) == ids


def test_drop_topic_by_force_drops_what_is_left(mq: Session) -> None:
    fill(mq, 5)
    mq.send("one", "1", delay=seconds(0.05))
    mq.prepare("one", "1")
    mq.send("one", "2")
    mq.call("drop_topic", "one", force=True)
    mq.execute("select pg_sleep(0.06)")
    ids = fill(mq, 1, "t")
    assert ids_of(mq.delivered("t")) == ids
