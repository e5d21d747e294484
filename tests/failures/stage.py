"""A broker, the shop's own database, and the questions that every failure test asks at the end."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import NullPool, create_engine

import mqpg
from lab.proxy import Proxy
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.embedded import EmbeddedServer
from mqpg.workers.compensator import Compensator
from mqpg.workers.worker import Options
from tests.failures import actors
from tests.failures.actors import SALE
from tests.support import halves, killing
from tests.support.broker import HOT_TABLES, Broker, Session, Spare, message_id, positions, seconds
from tests.support.losing import losing_the_unflushed
from tests.support.proxied import proxied
from tests.support.servers import restart
from tests.support.waiting import eventually
from tests.support.working import at_work

__all__ = ["IMPATIENT", "SHOP_TABLES", "CrashingStage", "Stage", "expire", "message_id", "taken", "two_brokers"]

# Functions have a path of their own, so a session's cannot change what they call.
_PATH_OF_FUNCTIONS = """
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid from pg_proc p
        where p.pronamespace = 'mqpg'::regnamespace and p.proconfig::text like '%search_path=%'
    loop
        execute format('alter function %s set search_path = {}', v_function);
    end loop;
end $$
"""

# Settings of a client that soon gives a broker up.
IMPATIENT: dict[str, Any] = {"retry_timeout": 0.2, "pool_timeout": 1.5, "connect_timeout": 5}
SHOP_TABLES = "create table if not exists sale (id int primary key); create table if not exists effect (id int)"


class Stage:
    """A broker with the topic `orders` (2 queues), the subscriber `readers` and the producer group
    `shop`. The group's ledger is in the shop's database. `sql` and `mq` work on the broker, `shop`
    works on the shop's database.
    """

    def __init__(self, dsn: str, shop_dsn: str, spare: Spare | None = None) -> None:
        self.dsn, self.shop_dsn = dsn, shop_dsn
        self.broker = Broker(dsn, spare)
        self.sql = self.broker.session()
        self.shop = Broker(shop_dsn).session()
        self.mq = mqpg.connect(dsn, retry_timeout=5)
        self.shop_url = to_sqlalchemy(shop_dsn).render_as_string(hide_password=False)
        # No pool: nothing stays open in a database that the test takes away.
        self.engine = create_engine(self.shop_url, poolclass=NullPool)
        self.ledger = mqpg.Ledger(self.engine)
        self.producer = mqpg.TransactionalProducer(self.mq, group="shop", ledger=self.engine)
        self.sql.call("create_topic", "orders", queues=2)
        self.sql.call("create_producer_group", "shop", check_after=seconds(0.01), checker="url", checker_target="shop")
        self.sql.call("subscribe", "readers", "orders")
        self.producer.create_ledger()

    def close(self) -> None:
        self.producer.close()
        self.mq.close()
        self.engine.dispose()
        self.shop.conn.close()
        self.broker.close()

    def stored(
        self, mq: mqpg.Client | mqpg.protocols.Brokers | None = None, **options: Any
    ) -> mqpg.protocols.OutboxProducer:
        """FastMiniMQ's producer, which stores its messages in the shop's database.

        Its group `fast` has no checker that answers.
        """
        self.mq.create_producer_group("fast", check_after="1 h")
        producer = mqpg.protocols.OutboxProducer(mq or self.mq, database=self.engine, group="fast", **options)
        producer.create_outbox()
        return producer

    def outbox(self) -> list[str]:
        """The states of the messages that FastMiniMQ's producer still stores."""
        return [row[0] for row in self.shop.rows("select state from mqpg_outbox order by created_at")]

    def recovered(self, producer: mqpg.protocols.OutboxProducer) -> bool:
        """Let a producer recover, and say whether it has nothing left. Its own recovery may have been first."""
        producer.recover(older_than=timedelta(0))
        return self.outbox() == []

    def sell_here(self) -> None:
        """Put the business into the broker's database too: its tables, and the producer group
        `here`.
        """
        self.sql.execute(SHOP_TABLES)
        self.mq.create_producer_group("here", check_after="10 ms", checker="ledger")

    def reconnect(self) -> None:
        """Open new test sessions after a crash of the broker's server.

        The client notices the crash by itself.
        """
        self.broker.close()
        self.broker = Broker(self.dsn)
        self.sql = self.broker.session()

    # what is done

    def sell(self, id: int, *, producer: mqpg.TransactionalProducer | None = None, **named: Any) -> str:
        """Make one sale with its message (protocol T2). Returns its handle."""
        with (producer or self.producer).transaction("orders", {"id": id}, **named) as tx:
            tx.execute(SALE, {"id": id})
        return tx.handle

    def killed(self, actor: str, when: str, step: str, nth: int = 1, **arguments: Any) -> None:
        """Run an actor on this broker until SIGKILL ends it before or after the nth call of a step.

        A step is, for example, "mqpg:Client.ack".
        """
        killing.killed(actors.__name__, actor, self._places(actor) | arguments, step, when, nth)

    def finished(self, actor: str, **arguments: Any) -> None:
        """Run an actor on this broker to its end."""
        killing.finished(actors.__name__, actor, self._places(actor) | arguments)

    def _places(self, actor: str) -> dict[str, str]:
        known = getattr(actors, actor).__code__.co_varnames
        return {name: place for name, place in (("dsn", self.dsn), ("shop", self.shop_url)) if name in known}

    def recover(self) -> int:
        """Run the producer's recovery once (T2, step 5)."""
        return self.producer.recover(older_than=timedelta(0))

    def compensator(self, **options: Any) -> AbstractContextManager[Compensator]:
        """Run a compensator for all groups in a thread."""
        wanted = {"interval": 0.02, "ledgers": {"shop": self.shop_url}} | options
        return at_work(Compensator, Options(self.dsn, **wanted))

    def check_back(self, until: Callable[[], Any] | None = None, **options: Any) -> None:
        """Let the compensator ask until no half is undecided, or until `until` returns true."""
        with self.compensator(**options):
            eventually(until or (lambda: self.pending() == []), interval=0.03)

    def append(self) -> None:
        """Append until nothing is left to append."""
        while self.mq.append():
            pass

    @contextmanager
    def through_proxy(self, dsn: str | None = None, **settings: Any) -> Iterator[tuple[Proxy, mqpg.Client]]:
        """A client whose connections can be cut."""
        settings = {"retry_timeout": 5, "pool_timeout": 5} | settings
        with proxied(dsn or self.dsn) as (cut, found), mqpg.connect(found, **settings) as client:
            yield cut, client

    @contextmanager
    def shop_through_proxy(self) -> Iterator[tuple[Proxy, mqpg.TransactionalProducer]]:
        """A producer whose connections to the shop's database can be cut."""
        with (
            proxied(self.shop_dsn) as (cut, through),
            mqpg.TransactionalProducer(self.mq, group="shop", ledger=to_sqlalchemy(through)) as producer,
        ):
            yield cut, producer

    @contextmanager
    def shop_away(self) -> Iterator[None]:
        """Make the shop's database refuse all connections."""
        name = sql.Identifier(self.shop.conn.info.dbname)
        alter = sql.SQL("alter database {} allow_connections {}")
        with psycopg.connect(make_conninfo(self.shop_dsn, dbname="postgres"), autocommit=True) as admin:
            admin.execute(alter.format(name, sql.SQL("false")))
            admin.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s and pid <> %s",
                [self.shop.conn.info.dbname, self.shop.pid],
            )
            try:
                yield
            finally:
                admin.execute(alter.format(name, sql.SQL("true")))

    @contextmanager
    def jumped(self, by: str) -> Iterator[Session]:
        """A session whose database clock is wrong by that much."""
        session = self.broker.session()
        session.execute("create schema jumped; grant usage on schema jumped to public")
        session.execute(
            "create function jumped.clock_timestamp() returns timestamptz language sql as"
            f" $$ select pg_catalog.clock_timestamp() + case pg_backend_pid() when {session.pid}"
            f" then interval '{by}' else '0' end $$"
        )
        session.execute(_PATH_OF_FUNCTIONS.format("jumped, pg_catalog, pg_temp"))
        yield session
        session.execute(_PATH_OF_FUNCTIONS.format("pg_catalog, pg_temp"))
        session.execute("drop schema jumped cascade")

    def overdue_now(self) -> None:
        """End every lease and back-off of check-backs."""
        halves.overdue_now(self.sql)

    # what is found

    def sold(self) -> list[int]:
        """The ids of the sales whose local transactions committed."""
        return [row[0] for row in self.shop.rows("select id from sale order by id")]

    def sold_here(self) -> list[int]:
        """The same, where the business is in the broker's database."""
        return [row[0] for row in self.sql.rows("select id from sale order by id")]

    def effects(self) -> list[int]:
        """The effects of consumers, with duplicates."""
        return [row[0] for row in self.shop.rows("select id from effect order by id")]

    def lag(self, group: str) -> int:
        """How many messages the group has left to do."""
        return int(self.sql.scalar("select sum(lag) from mqpg.subscription_lag where consumer_group = %s", group))

    def effects_and_lag(self, group: str) -> tuple[list[int], int]:
        """The effects in the broker's database, and the group's lag."""
        return [row[0] for row in self.sql.rows("select id from effect order by id")], self.lag(group)

    def looked_at(self, ledger: str) -> int:
        """How often the compensator looked at a ledger that gave it no verdict. Needs `heartbeat`."""
        counts = (
            "select (d ->> 'failures')::int + (d ->> 'wait')::int from mqpg.worker, jsonb_path_query(detail, %s) as d"
        )
        found = self.sql.rows(counts, f"$.ledgers.{ledger} ? (exists (@.failures))")
        return max((row[0] for row in found), default=0)

    def delivered(self) -> list[int]:
        """The ids that `readers` get and acknowledge, with duplicates."""
        self.append()
        return sorted(m.payload["id"] for m in self.sql.drain("orders", group="readers", max_messages=1000))

    def pending(self) -> list[Any]:
        return self.sql.rows("select * from mqpg.half_pending")

    def parked(self) -> list[Any]:
        return self.sql.rows("select * from mqpg.half_parked")

    def events(self, handle: str) -> list[str]:
        """The events of a half in the check log, in order."""
        return halves.checks(self.sql, handle)

    def decision(self, handle: str) -> tuple[str, str] | None:
        """How a half was decided (c: commit, b: rollback), and by which party."""
        return halves.decision(self.sql, handle)

    def exactly_once(self, ids: list[int]) -> None:
        """Assert that these sales happened, exactly their messages were delivered, and nothing is
        left open.
        """
        assert self.sold() == ids
        assert self.delivered() == ids
        assert self.pending() == []

    def consistent(self) -> None:
        """Assert that the broker as a whole is consistent.

        Offsets are dense, each committed message has one, other messages have none, and no hot
        table saw an UPDATE.
        """
        self.append()
        for topic in self.sql.rows("select name, kind from mqpg.topic"):
            offsets: dict[int, list[int]] = {}
            for queue_id, offset, _ in positions(self.sql, topic.name):
                offsets.setdefault(queue_id, []).append(offset)
            for queue_id, found in offsets.items():
                assert found == list(range(len(found))), f"topic {topic.name} queue {queue_id} is not dense"
            if topic.kind == "normal":
                self._one_offset_each(topic.name)
        changed = self.sql.rows(_CHANGED, list(HOT_TABLES))
        assert changed == [], f"rows of hot tables were changed: {changed}"

    def _one_offset_each(self, topic: str) -> None:
        appended = Counter(message_id for _, _, message_id in positions(self.sql, topic))
        repeated = [i for i, n in appended.items() if n > 1]
        assert repeated == [], f"repeated: {repeated}"
        must = {row[0] for row in self.sql.rows(_MUST, topic)}
        may = {row[0] for row in self.sql.rows(_MAY, topic)}
        lost, strange = must - set(appended), set(appended) - must - may
        assert not lost, f"lost: {sorted(lost)}"
        assert not strange, f"from nowhere: {sorted(strange)}"


# An INSERT ... ON CONFLICT that loses a race takes its own row back, which PostgreSQL counts as a delete.
_CHANGED = """
select s.relname, s.n_tup_upd, s.n_tup_del
from pg_stat_user_tables as s
join pg_inherits as i on i.inhrelid = s.relid
join pg_class as t on t.oid = i.inhparent
where t.relnamespace = 'mqpg'::regnamespace and t.relname = any (%s)
    and s.n_tup_upd + case when t.relname in ('op_log', 'cursor', 'dedup') then 0 else s.n_tup_del end > 0
"""
_MUST = """
with t as (select topic_id from mqpg.topic where name = %s)
select l.batch_id * 1024 + i.i from mqpg.commit_log as l
join t using (topic_id)
cross join lateral generate_series(0, l.n - 1) as i (i)
where l.kind = 'n'
union all
select o.message_id from mqpg.op_log as o join t using (topic_id)
where o.stage = 0 and o.op = 'c' and o.visible_at is null
"""
_MAY = """
select l.batch_id * 1024 + i.i from mqpg.commit_log as l
join mqpg.topic as t using (topic_id)
cross join lateral generate_series(0, l.n - 1) as i (i)
where t.name = %s and (l.kind = 'd' or exists (
    select from mqpg.op_log as o
    where o.message_id = l.batch_id * 1024 + i.i and o.op = 'c' and o.visible_at is not null))
"""


def expire(stage: Stage, handle: str) -> None:
    """Drop the half's segment, as after its topic's retention."""
    stage.sql.execute("update mqpg.settings set value = '0 s' where name in ('op_log_keep', 'segment_age')")
    stage.sql.execute("update mqpg.topic set retention = '0 s'")
    batch = int(handle.split(".")[2]) // 1024

    def dropped() -> bool:
        stage.sql.call("keep")
        found = stage.sql.scalar("select count(*) from mqpg.commit_log where batch_id = %s", batch)
        return bool(found == 0)

    eventually(dropped, interval=0.05)


@contextmanager
def two_brokers(stage: Stage, other: str) -> Iterator[tuple[Proxy, mqpg.protocols.Brokers, str]]:
    """The stage's broker behind a proxy, a second broker, and a key that belongs to the first one."""
    with mqpg.connect(other) as mq:
        mq.create_topic("orders", queues=2)
        mq.create_producer_group("fast", check_after="1 h")
        mq.subscribe("readers", "orders")
    with (
        proxied(stage.dsn) as (cut, first),
        mqpg.protocols.Brokers([first, other], pause=0.01, longest_pause=0.01, **IMPATIENT) as brokers,
    ):
        key = next(k for k in map(str, range(99)) if next(brokers._candidates(k)).dsn == first)
        yield cut, brokers, key


def taken(dsn: str) -> list[int]:
    """The ids that the second broker delivers."""
    other = Broker(dsn)
    session = other.session()
    while session.append():
        pass
    found = [m.payload["id"] for m in session.drain("orders", group="readers")]
    other.close()
    return found


@dataclass(frozen=True, slots=True)
class CrashingStage:
    """A stage on a server that can be crashed."""

    stage: Stage
    server: EmbeddedServer

    def crash(self) -> None:
        """Shut the server down at once, without a checkpoint, and start it again."""
        restart(self.server)
        self.stage.reconnect()

    @contextmanager
    def losing_the_unflushed(self) -> Iterator[None]:
        """Crash the server at the end of the block; commits that nothing flushed are lost."""
        with losing_the_unflushed(self.stage.dsn):
            yield
        self.stage.reconnect()
