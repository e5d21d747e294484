"""Run what the killed processes do: whole programs of users and workers, with the public library."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

import mqpg
from mqpg.workers.compensator import Compensator
from mqpg.workers.worker import Options
from tests.support.killing import die_at
from tests.support.waiting import eventually

SALE = text("insert into sale (id) values (:id)")
EFFECT = text("insert into effect (id) values (:id)")


@contextmanager
def _producer(dsn: str, shop: str) -> Iterator[mqpg.TransactionalProducer]:
    with mqpg.connect(dsn) as mq, mqpg.TransactionalProducer(mq, group="shop", ledger=shop) as producer:
        yield producer


def sell(dsn: str, shop: str, id: int, fail: bool = False, final: Any = None) -> None:
    """Protocol T2: one sale with its message; `fail` makes the local transaction fail."""
    with _producer(dsn, shop) as producer, producer.transaction("orders", {"id": id}, key=str(id)) as tx:
        tx.execute(SALE, {"id": id})
        if final is not None:
            tx.commit_payload(final)
        if fail:
            raise ValueError("the shop says no")


def sell_here(dsn: str, id: int, fail: bool = False, feed: bool = False) -> None:
    """Half message and local transaction in the broker's own database, by SQL.

    With `feed` it also writes the op-log entry, which a compensator would do.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute("select mqpg.prepare('orders', '{}'::text, 'here')").fetchone()
        assert row is not None
        if feed:
            conn.execute("select mqpg.compensate()")
        with conn.transaction() as tx:
            conn.execute("select mqpg.local_begin(%s)", row)
            conn.execute("insert into sale values (%s)", [id])
            tx.force_rollback = fail
        conn.execute("select mqpg.rollback(%s)" if fail else "select mqpg.commit(%s)", row)


def sell_stored(dsn: str, shop: str, id: int, fail: bool = False, merged: bool = False) -> None:
    """FastMiniMQ's P1 to P7: the message is stored in the shop's database first."""
    with (
        mqpg.connect(dsn) as mq,
        mqpg.protocols.OutboxProducer(mq, database=shop, group="fast") as producer,
        producer.transaction("orders", {"id": id}, merged=merged) as tx,
    ):
        tx.execute(SALE, {"id": id})
        if fail:
            raise ValueError("the shop says no")


def sell_compensated(dsn: str, shop: str, id: int, fail: bool = False) -> None:
    """QoS 1: the message is stored with the business, sent after, and then deleted."""
    engine = create_engine(shop, poolclass=NullPool)
    with mqpg.connect(dsn) as mq, mqpg.protocols.OutboxProducer(mq, database=engine) as producer:
        with engine.begin() as conn:
            conn.execute(SALE, {"id": id})
            producer.send("orders", {"id": id}, conn=conn)
            if fail:
                raise ValueError("the shop says no")
        producer.recover(older_than=timedelta(0))


def post(dsn: str, shop: str, id: int, result: str = "success") -> None:
    """postMessage: the business runs in a callback, which returns its result."""

    def business(handle: str) -> str:
        if result != "failure":
            do_business(shop, id)
        return result

    with mqpg.connect(dsn) as mq:
        mqpg.protocols.PostProducer(mq, group="posted").post("orders", {"id": id}, business)


def do_business(shop: str, id: int) -> None:
    """Do the business of `post` in a transaction of its own."""
    engine = create_engine(shop, poolclass=NullPool)
    with engine.begin() as conn:
        conn.execute(SALE, {"id": id})


def answer(dsn: str, shop: str) -> None:
    """The reverse flow of `post`: answer with the outcome of the business for each message."""
    engine = create_engine(shop, poolclass=NullPool)
    with mqpg.connect(dsn) as mq:
        producer = mqpg.protocols.PostProducer(mq, group="posted", check=lambda half: look_up(engine, half))
        eventually(producer.answer)


def look_up(engine: Engine, half: mqpg.HalfCheck) -> mqpg.protocols.Result:
    """Return the result that the shop's books show."""
    with engine.connect() as conn:
        found = conn.execute(text("select id from sale where id = :id"), {"id": half.payload["id"]}).first()
    return mqpg.protocols.Result.FAILURE if found is None else mqpg.protocols.Result.SUCCESS


def reconcile(dsn: str, shop: str) -> None:
    """Compare the shop's ledger with the broker once."""
    with mqpg.connect(dsn) as mq:
        mqpg.protocols.Reconciler(mq, shop, older_than=timedelta(0)).step()


def compensator(dsn: str, shop: str, seconds: float = 30.0) -> None:
    """Run the compensator for this many seconds."""
    stop = threading.Event()
    worker = Compensator(Options(dsn, interval=0.02, ledgers={"shop": shop}), stop)
    threading.Timer(seconds, stop.set).start()
    worker.run()


def compensate(dsn: str) -> None:
    """Do what pg_cron would do."""
    with mqpg.connect(dsn) as mq:
        eventually(mq.compensate)


def consume_there(dsn: str, shop: str, consumer: str = "one", topic: str = "orders") -> None:
    """Protocol C2: effect and offset in the consumer's own database."""

    @mqpg.consumer(topic, group="there", database=shop, consumer=consumer)
    def handle(message: mqpg.Message, conn: Connection) -> None:
        conn.execute(EFFECT, {"id": message.payload["id"]})

    with mqpg.connect(dsn) as mq:
        while handle.step(mq):
            pass
    handle.close()


def consume_here(dsn: str, group: str = "readers") -> None:
    """Protocol C1: effect in the broker's database."""

    @mqpg.consumer("orders", group=group, lease=0.5)
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into effect values (%s)", [message.payload["id"]])

    with mqpg.connect(dsn) as mq:
        while handle.step(mq):
            pass


def consume_c3(dsn: str, lease: float, effects: str) -> None:
    """Protocol C3: the effect is outside of any transaction, and the ack follows."""
    with mqpg.connect(dsn) as mq:
        for message in mq.receive("readers", "orders", lease=lease):
            with open(effects, "a") as out:
                out.write(f"{message.payload['id']}\n")
            mq.ack(message)


def main(actor: str, arguments: dict[str, Any], step: str | None = None, when: str = "", nth: int = 1) -> None:
    """Run an actor, and die before or after the nth call of `module:name` or `module:Class.name`."""
    if step is not None:
        die_at(step, when, nth)
    globals()[actor](**arguments)
