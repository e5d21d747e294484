"""I12: a worker killed anywhere loses nothing and repeats nothing it committed."""

import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fixtures.databases import OwnServer
from tests.support.broker import Broker, Session, cut_off, positions, seconds
from tests.support.forking import Forked
from tests.support.waiting import PATIENCE, eventually

ROLES = ["producer", "producer", "appender", "appender", "consumer", "consumer", "compensator"]


class Crew:
    """Client processes by role. `kill` sends SIGKILL and replaces the process."""

    def __init__(self, dsn: str, rng: random.Random) -> None:
        self.dsn, self.rng = dsn, rng
        self.running = [(role, self._start(role)) for role in ROLES]
        self.kills: Counter[str] = Counter()

    def _start(self, role: str) -> Forked:
        seed = self.rng.randrange(2**32)
        return Forked([self.dsn, role, seed], function="tests.support.crash_client:main")

    def kill_one(self) -> None:
        i = self.rng.randrange(len(self.running))
        role, process = self.running[i]
        self._kill(process)
        self.kills[role] += 1
        self.running[i] = (role, self._start(role))

    def kill_each_role(self) -> None:
        for i, (role, process) in enumerate(self.running):
            if self.kills[role] == 0:
                self._kill(process)
                self.kills[role] += 1
                self.running[i] = (role, self._start(role))

    def _kill(self, process: Forked) -> None:
        process.kill()
        process.wait(PATIENCE)

    def stop(self) -> None:
        for _, process in self.running:
            self._kill(process)
        self.running = []


@pytest.fixture
def shop(mq: Session) -> Session:
    return furnish(mq)


def furnish(mq: Session) -> Session:
    mq.call("create_producer_group", "shop", check_after=seconds(0.3), checker="ledger")
    mq.execute("create table sale (message_id bigint primary key)")
    mq.execute("create table effect (message_id bigint)")
    return mq


@pytest.fixture
def crews() -> Iterator[list[Crew]]:
    made: list[Crew] = []
    yield made
    for crew in made:
        crew.stop()


def settle_and_drain(mq: Session) -> None:
    """Do what a full set of workers would finish: check-backs, appends, deliveries."""

    def finished() -> bool:
        mq.call("compensate")
        while mq.append():
            pass
        with mq.transaction():
            got = mq.receive("t", max_messages=1000)
            for m in got:
                mq.execute("insert into effect values (%s)", m.message_id)
            if got:
                mq.ack(got[0].receipt)
        return not got and mq.scalar("select count(*) from mqpg.half_pending") == 0

    eventually(finished, interval=0.02)


def assert_exactly_once(mq: Session) -> int:
    sales = [r[0] for r in mq.rows("select message_id from sale")]
    effects = Counter(r[0] for r in mq.rows("select message_id from effect"))
    assert [m for m, n in effects.items() if n > 1] == [], "repeated"
    assert sorted(set(sales) - set(effects)) == [], "lost"
    assert sorted(set(effects) - set(sales)) == [], "from nowhere"
    offsets: dict[int, list[int]] = {}
    for queue_id, offset, _ in positions(mq, "t"):
        offsets.setdefault(queue_id, []).append(offset)
    assert all(o == list(range(len(o))) for o in offsets.values())
    return len(sales)


def test_I12_killed_clients_lose_and_repeat_nothing(
    shop: Session, broker: Broker, rng: random.Random, crews: list[Crew]
) -> None:
    crews.append(crew := Crew(broker.dsn, rng))
    eventually(lambda: shop.rows("select from sale"))
    for _ in range(12):
        time.sleep(rng.random() * 0.2)
        crew.kill_one()
    crew.kill_each_role()
    eventually(lambda: shop.scalar("select count(*) > 20 from sale"), timeout=60)
    crew.stop()
    settle_and_drain(shop)
    assert assert_exactly_once(shop) > 20


def test_I12_a_killed_server_loses_and_repeats_nothing(
    own_server: OwnServer, rng: random.Random, crews: list[Crew]
) -> None:
    broker = Broker(own_server.dsn)
    mq = broker.session()
    mq.subscribed("t", queues=4)
    furnish(mq)
    crews.append(crew := Crew(broker.dsn, rng))
    eventually(lambda: mq.rows("select from sale"))
    broker.close()
    for _ in range(2):
        time.sleep(0.4 + rng.random() * 0.4)
        crew.kill_one()
        own_server.crash()
    after = Broker(own_server.dsn)
    mq = after.session()
    eventually(lambda: mq.scalar("select count(*) > 20 from sale"), timeout=60)
    crew.stop()
    settle_and_drain(mq)
    assert assert_exactly_once(mq) > 20
    after.close()


def test_I12_a_backend_killed_in_the_middle_of_a_pass(mq: Session, broker: Broker) -> None:
    """A call of the appender is one transaction.

    It leaves no trace, and the next call repeats its work.
    """
    victim = broker.session()
    ids = mq.send_batch("one", ["1"] * 10)
    with cut_off(), victim.transaction():
        assert victim.append() == 10
        mq.execute("select pg_terminate_backend(%s)", victim.pid)
        victim.execute("select 1")
    assert positions(mq, "one") == []
    eventually(mq.append)
    assert [m for _, _, m in positions(mq, "one")] == ids


def test_I12_a_consumer_killed_before_its_commit_repeats_no_effect(mq: Session, broker: Broker) -> None:
    mq.execute("create table effect (message_id bigint)")
    ids = mq.sent_batch("one", ["1"] * 3)
    victim = broker.session()
    with cut_off(), victim.transaction():
        got = victim.receive("one")
        for m in got:
            victim.execute("insert into effect values (%s)", m.message_id)
        victim.ack(got[0].receipt)
        mq.execute("select pg_terminate_backend(%s)", victim.pid)
        victim.execute("select 1")
    again = eventually(lambda: mq.receive("one"))
    assert [m.message_id for m in again] == ids
    assert {m.attempt for m in again} == {1}
    assert mq.rows("select * from effect") == []
