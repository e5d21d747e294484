"""Queues that are added to a topic in use: nothing is lost or doubled, and each key keeps its order."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from mqpg import migrate
from tests.support.broker import Broker, Session, refused, tolerating
from tests.support.growing import MOVED, settle
from tests.support.servers import temporary_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database

MODES = ("exclusive", "pinned", "broadcast", "shared")


_USED = "select queue_id from mqpg.queue_depth where next_offset > 0"


def waiting(mq: Session) -> list[int]:
    return [row[0] for row in mq.rows("select queue_id from mqpg.waiting_queue order by queue_id")]


@pytest.fixture
def moved(mq: Session) -> str:
    return str(mq.scalar(MOVED))


def add_queue(mq: Session, moved: str) -> int:
    """Give topic `one` a second queue, and send a message that goes there."""
    mq.call("alter_topic", "one", queues=2)
    message_id = mq.send("one", key=moved)
    settle(mq)
    return message_id


@pytest.mark.parametrize("queues", [0, -4, 1, 2, 3, 6, 1001])
def test_other_numbers_are_refused(queues: int, mq: Session) -> None:
    with refused("MQ001", "queues"):
        mq.call("alter_topic", "t", queues=queues)
    assert mq.scalar("select queues from mqpg.topics where topic = 't'") == 4


def test_the_same_number_changes_nothing(mq: Session) -> None:
    mq.call("alter_topic", "t", queues=4)
    assert waiting(mq) == []


def test_an_added_queue_is_read_after_the_older_messages_of_its_keys(mq: Session, moved: str) -> None:
    first = mq.sent("one", key=moved)
    second = add_queue(mq, moved)
    delivery = mq.receive("one", max_messages=1)
    assert [row.message_id for row in delivery] == [first]
    settle(mq)
    assert mq.receive("one", queue_id=1) == []
    mq.ack(delivery[0].receipt)
    settle(mq)
    got = mq.receive("one", queue_id=1)
    assert [(row.message_id, row.queue_id, row.queue_offset) for row in got] == [(second, 1, 0)]
    assert waiting(mq) == []


def test_a_transaction_that_began_before_is_waited_for(broker: Broker, mq: Session, moved: str) -> None:
    with broker.transaction() as late:
        first = late.send("one", key=moved)
        second = add_queue(mq, moved)
        assert mq.receive("one") == []
        third = late.send("one", key=moved)
    settle(mq, rounds=1)
    assert [row.message_id for row in mq.receive("one", max_messages=10)] == [first]
    settle(mq)
    assert waiting(mq) == [1], "what was there before is not acknowledged"
    mq.call("seek", "g", "one", "latest", queue_id=0)
    settle(mq)
    assert sorted(row.message_id for row in mq.receive("one")) == sorted([second, third])


def test_a_snapshot_from_before_is_waited_for(broker: Broker, mq: Session, moved: str) -> None:
    """The sender sees the old number of queues, although it touches the topic later than all others."""
    late = broker.session("begin isolation level repeatable read; select 1")
    add_queue(mq, moved)
    first = late.send("one", key=moved)
    settle(mq)
    assert mq.receive("one") == []
    late.execute("commit")
    settle(mq)
    assert [(row.queue_id, row.message_id) for row in mq.receive("one")] == [(0, first)]


def test_a_prepared_transaction_is_waited_for() -> None:
    """It began when the queues were added, and keeps its id when it is prepared."""
    with temporary_server(settings={"max_prepared_transactions": "2", "fsync": "off"}) as server:
        dsn = server.create_database("mqpg")
        migrate.upgrade(dsn)
        broker = Broker(dsn)
        mq, late = broker.session(), broker.session("begin")
        mq.subscribed("one")
        key = mq.scalar(MOVED)
        late.execute("select mqpg.send('one', '{}', key => %s)", key)
        mq.call("alter_topic", "one", queues=2)
        mq.call("_open_queues")
        late.execute("prepare transaction 'late'")
        mq.send("one", key=key)
        settle(mq)
        assert mq.receive("one") == []
        mq.execute("commit prepared 'late'")
        settle(mq)
        assert [row.queue_id for row in mq.receive("one")] == [0]
        broker.close()


def test_an_owner_without_rights_sees_the_transactions_of_others(broker: Broker, mq: Session) -> None:
    other, owner = broker.session("begin"), broker.session("begin")
    other.scalar("select 1")
    owner.execute("create role plain; grant usage on schema mqpg to plain")
    owner.execute("grant execute on function mqpg._running_transactions to plain; set local role plain")
    assert owner.scalar("select count(*) from mqpg._running_transactions()") == 1
    owner.execute("rollback")


def test_a_half_message_from_before_is_waited_for(mq: Session, moved: str) -> None:
    handle = mq.prepare("one", key=moved)
    add_queue(mq, moved)
    assert mq.receive("one") == []
    mq.commit(handle)
    settle(mq)
    assert [row.queue_id for row in mq.receive("one")] == [0]


def test_an_overdue_half_message_is_not_waited_for(mq: Session, moved: str) -> None:
    mq.prepare("one", key=moved, check_after="10 ms")
    mq.execute("select pg_sleep(0.02)")
    add_queue(mq, moved)
    assert [row.queue_id for row in mq.receive("one")] == [1]


def test_other_databases_and_idle_sessions_are_not_waited_for(broker: Broker, mq: Session, moved: str) -> None:
    broker.session().scalar("select count(*) from mqpg.topic")
    with psycopg.connect(broker.dsn, dbname="postgres") as elsewhere:
        elsewhere.execute("select 1")
        add_queue(mq, moved)
        assert len(mq.receive("one")) == 1


def test_queues_that_are_added_to_added_queues(mq: Session) -> None:
    """The key goes from queue 0 to 1 to 3, and the messages in 0 come first although 1 is empty."""
    key = mq.scalar("select min(k::text) from generate_series(1, 100) as k where mqpg._queue_of(k::text, 4) = 3")
    first = mq.sent("one", key=key)
    mq.call("alter_topic", "one", queues=2)
    mq.call("alter_topic", "one", queues=4)
    second = mq.send("one", key=key)
    settle(mq)
    assert waiting(mq) == [1, 2, 3]
    assert [row.message_id for row in mq.receive("one", max_messages=1)] == [first]
    settle(mq)
    mq.call("seek", "g", "one", "latest", queue_id=0)
    settle(mq)
    assert [(row.message_id, row.queue_id) for row in mq.receive("one")] == [(second, 3)]


def test_who_subscribes_later_waits_if_it_reads_what_was_before(mq: Session, moved: str) -> None:
    first = mq.sent("one", key=moved)
    second = add_queue(mq, moved)
    mq.call("subscribe", "early", "one")
    mq.call("subscribe", "late", "one", start="latest")
    mq.call("subscribe", "all", "one", "broadcast")
    third = mq.send("one", key=moved)
    settle(mq)
    assert [row.message_id for row in mq.receive("one", group="late")] == [third]
    for options in ({"group": "early"}, {"group": "all", "consumer": "a"}):
        assert [row.message_id for row in mq.receive("one", **options)] == [first]
        assert mq.receive("one", **options) == []
    mq.call("seek", "early", "one", "latest", queue_id=0)
    settle(mq)
    assert [row.message_id for row in mq.receive("one", group="early")] == [second, third]
    mq.call("seek", "early", "one", "earliest")
    assert [row.message_id for row in mq.receive("one", group="early")] == [first]
    assert mq.receive("one", group="early") == []


def test_mode_shared_does_not_wait(mq: Session, moved: str) -> None:
    mq.call("subscribe", "many", "one", "shared")
    mq.sent("one", key=moved)
    mq.call("alter_topic", "one", queues=2)
    mq.sent("one", key=moved)
    assert {row.queue_id for row in mq.receive("one", group="many") + mq.receive("one", group="many")} == {0, 1}


def test_a_group_that_is_shared_no_longer_waits(mq: Session, moved: str) -> None:
    mq.call("subscribe", "many", "one", "shared")
    first = mq.sent("one", key=moved)
    mq.call("alter_topic", "one", queues=2)
    second = mq.sent("one", key=moved)
    mq.call("alter_subscription", "many", "one", mode="exclusive")
    delivery = mq.receive("one", group="many") + mq.receive("one", group="many")
    assert [row.message_id for row in delivery] == [first]
    mq.ack(delivery[0].receipt)
    settle(mq)
    assert [row.message_id for row in mq.receive("one", group="many")] == [second]


def test_a_queue_that_waits_since_a_moment_ago_is_not_claimed(mq: Session, moved: str) -> None:
    """A call that chose the queue before, and a consumer without a name."""
    mq.sent("one", key=moved)
    mq.call("alter_topic", "one", queues=2)
    mq.sent("one", key=moved)
    claim = (
        "select mqpg._claim(s, t, 1, 1, 10, '30 s', null, null) from mqpg.subscription s"
        " join mqpg.topic t using (topic_id) where s.consumer_group = 'g' and t.name = 'one'"
    )
    assert mq.scalar(claim) is None
    assert waiting(mq) == [1]


def test_unpin_opens_nothing(mq: Session, moved: str) -> None:
    mq.call("subscribe", "pin", "one", "pinned")
    mq.sent("one", key=moved)
    add_queue(mq, moved)
    mq.call("unpin", "pin", "one")
    mq.call("unpin", "pin", "one", queue_id=1)
    assert [row.queue_id for row in mq.receive("one", group="pin", consumer="a")] == [0]
    assert mq.receive("one", group="pin", consumer="a", queue_id=1) == []
    assert mq.call("_gone_owners", "pin", "one", "b", 0.0)[0].queues == [0]


def test_why_says_what_a_queue_waits_for(broker: Broker, mq: Session, moved: str) -> None:
    mq.sent("one", key=moved)
    with broker.transaction() as other:
        other.scalar("select 1")
        message = add_queue(mq, moved)
        (row,) = mq.call("why", message_id=message)
        assert row.cause == "queue_waits"
        assert (row.detail["after_queue"], row.detail["transactions"]) == (0, 1)
    settle(mq)
    (row,) = mq.call("why", message_id=message)
    assert (row.cause, row.detail["until_offset"]) == ("queue_waits", 1)


def test_an_adopted_copy_begins_to_wait_again(mq: Session, moved: str) -> None:
    mq.call("alter_topic", "one", queues=2)
    mq.send("one", key=moved)
    mq.call("_open_queues")
    mq.call("adopt")
    settle(mq)
    assert len(mq.receive("one")) == 1


def test_a_subscription_with_an_old_snapshot_is_refused_or_complete(broker: Broker, mq: Session) -> None:
    late = broker.session("begin isolation level repeatable read; select 1")
    mq.call("alter_topic", "one", queues=2)
    with tolerating("40001"):
        late.call("subscribe", "late", "one")
        late.execute("commit")
        assert mq.scalar("select count(*) from mqpg.subscription_lag where consumer_group = 'late'") == 3


def test_a_subscription_that_begins_meanwhile_has_all_queues(broker: Broker, mq: Session) -> None:
    adding, joining = broker.session("begin"), broker.session()
    mq.call("subscribe", "all", "one", "broadcast")
    adding.call("alter_topic", "one", queues=2)
    made = broker.blocked(joining, joining.call, "subscribe", "new", "one")
    assert mq.receive("one", group="all", consumer="a") == []
    adding.execute("commit")
    made.result(45)
    mq.receive("one", group="all", consumer="a")
    counts = dict(mq.rows("select consumer_group, count(*) from mqpg.subscription_lag where topic = 'one' group by 1"))
    assert counts == {"g": 3, "new": 3, "all": 3}


# A random history: senders, consumers of all modes, an appender, and queues that are added meanwhile.


class Traffic:
    """Senders and consumers of the topic `one`, each in a thread with a session of its own."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self.broker = broker
        self.rng = rng
        self.stop = threading.Event()
        self.drained = threading.Event()
        self.got: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.sent: dict[str, int] = defaultdict(int)
        self.errors: list[BaseException] = []

    @contextmanager
    def thread(self, work: Any, *args: object) -> Iterator[None]:
        def run() -> None:
            try:
                work(self.broker.session(), *args)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        yield
        thread.join(60)

    def produce(self, mq: Session, number: int) -> None:
        """Each key has one sender, so its order is known."""
        rng = random.Random(number)
        while not self.stop.is_set():
            key = f"{number}-{rng.randrange(8)}"
            how = rng.randrange(4)
            if how == 0:
                self.commit_half(mq, key)
            elif how == 1:
                with mq.transaction():
                    self.send(mq, key)
                    self.stop.wait(rng.random() / 50)
                    self.send(mq, key)
            else:
                self.send(mq, key)

    def send(self, mq: Session, key: str) -> None:
        mq.send("one", json.dumps(self.next(key)), key=key)

    def commit_half(self, mq: Session, key: str) -> None:
        handle = mq.prepare("one", json.dumps(self.next(key)), key=key)
        self.stop.wait(0.01)
        assert mq.commit(handle) == "committed"

    def next(self, key: str) -> int:
        self.sent[key] += 1
        return self.sent[key]

    def work(self, mq: Session) -> None:
        while not self.drained.is_set():
            mq.append()
            mq.call("_open_queues")

    def consume(self, mq: Session, group: str, consumer: str | None) -> None:
        """One transaction for each delivery, of which some are rolled back."""
        rng = random.Random(f"{group} {consumer}")
        name = f"{group} {consumer}" if group == "broadcast" else group
        while not self.drained.is_set():
            with tolerating("40001"), mq.transaction() as outer:
                rows = mq.receive("one", group=group, consumer=consumer, max_messages=rng.choice([1, 7, 50]))
                if rows and rng.random() < 0.1:
                    raise psycopg.Rollback(outer)
                if rows:
                    mq.ack(rows[0].receipt)
                    # Before the commit, so that the next consumer of the queue comes later in the list.
                    self.got[name].extend((row.key, row.payload) for row in rows)
            if not rows:
                self.drained.wait(0.005)


def test_each_key_keeps_its_order_while_queues_are_added(broker: Broker, mq: Session) -> None:
    mq.call("unsubscribe", "g", "one")
    for mode in MODES:
        mq.call("subscribe", mode, "one", mode)
    for member in ("a", "b"):
        mq.receive("one", group="broadcast", consumer=member)
    traffic = Traffic(broker, random.Random(7))
    with ExitStack() as stack:
        for number in range(3):
            stack.enter_context(traffic.thread(traffic.produce, number))
        stack.enter_context(traffic.thread(traffic.work))
        for mode in MODES:
            for name in ("a", "b"):
                stack.enter_context(traffic.thread(traffic.consume, mode, name))
        for queues in (2, 4, 12):
            traffic.stop.wait(0.5)
            mq.call("alter_topic", "one", queues=queues)
        eventually(lambda: traffic.errors or not waiting(mq))
        eventually(lambda: traffic.errors or len(mq.rows(_USED)) == 12)
        traffic.stop.wait(0.3)
        traffic.stop.set()
        eventually(lambda: traffic.errors or _all_read(mq), 60)
        traffic.drained.set()
    assert traffic.errors == []
    wanted = {(key, number) for key, last in traffic.sent.items() for number in range(1, last + 1)}
    for name in ("exclusive", "pinned", "shared", "broadcast a", "broadcast b"):
        got = traffic.got[name]
        assert len(got) == len(set(got)) == len(wanted), name
        assert set(got) == wanted, name
        if name != "shared":
            assert _disorder(got) == [], name
    assert {row.queue_id for row in mq.rows(_USED)} == set(range(12))


def _all_read(mq: Session) -> bool:
    return mq.scalar("select sum(lag) from mqpg.subscription_lag where topic = 'one'") == 0


def _disorder(got: list[tuple[str, int]]) -> list[tuple[str, int, int]]:
    last: dict[str, int] = {}
    found = []
    for key, number in got:
        if number < last.get(key, 0):
            found.append((key, last[key], number))
        last[key] = number
    return found
