"""A shop under load in which nine things are broken on purpose. The tenth is the server's clock.

    python -m tests.diagnosis.broken_shop DSN FOLDER

The database has mqpg's schema and nothing else. The shop runs until Ctrl-C.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mqpg
from lab.processes import Fleet
from tests.support.broker import Broker, Session
from tests.support.retention import keep, retain, roll
from tests.support.waiting import eventually

__all__ = ["BrokenShop", "broken_shop"]

_MQPG = str(Path(sys.executable).with_name("mqpg"))
_AWAY = "postgresql://shop@127.0.0.1:1/shop?connect_timeout=2"
_TOPICS = ("deliveries", "payments", "orders", "mails", "refunds")


class BrokenShop:
    """What is broken. Each method breaks one thing.

    Args:
        dsn: The broker's database.
        folder: Where the processes write, and where the consumers keep their database.
    """

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn, self.folder = dsn, folder
        self.broker = Broker(dsn)
        self.mq: Session = self.broker.session()
        self.fleet = Fleet(folder, os.environ | {"MQPG_DATABASE_URL": dsn, "SHOP_FOLDER": str(folder)})
        self.uncommitted = 0
        self.stop = threading.Event()
        self.load = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        """Make the topics and break everything. No keeper runs: that is the first thing."""
        for topic in _TOPICS:
            self.mq.call("create_topic", topic, queues=2)
        for role in ("appender", "compensator"):
            self.fleet.add(role, [_MQPG, "worker", role, "--ledger", f"shop={_AWAY}"])
        self.blocked_segment()
        self.lost_ledger()
        self.parked_half_messages()
        self.filter_with_a_typing_error()
        self.poison_message()
        self.renamed_consumer()
        self.full_queue()
        self.old_transaction()
        self.load.start()

    def blocked_segment(self) -> None:
        """A session reads a segment whose time is over."""
        self.mq.call("subscribe", "archive", "refunds")
        for _ in range(2):
            self.mq.send("refunds", '{"refund": 1}')
            self.mq.append()
            self.mq.drain("refunds", group="archive")
            roll(self.mq)
        reader = self.broker.session()
        reader.execute("set application_name = 'monthly report'")
        reader.execute("begin")
        reader.execute("lock table mqpg.consume_queue_1 in access share mode")
        retain(self.mq, "0 s")
        blocked = "select count(*) from mqpg.blocked_segments where table_name = 'consume_queue_1'"
        eventually(lambda: keep(self.mq) is not None and self.mq.scalar(blocked))
        self.mq.execute("delete from mqpg.worker where pid = 0")  # calls of keep() count as a keeper for minutes
        retain(self.mq, "7 days")

    def lost_ledger(self) -> None:
        """The database that could answer for a producer group is away."""
        self.mq.call(
            "create_producer_group", "shop", checker="url", checker_target="shop", check_after="1 s", max_checks=1000
        )
        self.mq.prepare("orders", '{"order": "half", "amount": 1}', "shop", key="o-half")

    def parked_half_messages(self) -> None:
        """Nobody answered for these half messages, and their checks are used up."""
        self.mq.call("create_producer_group", "app", check_after="10 ms", max_checks=1)
        for n in range(3):
            self.mq.prepare("orders", f'{{"order": "parked-{n}", "amount": 1}}', "app")

        def parked() -> bool:
            self.mq.call("due_checks", "app", lease="10 ms")
            return bool(self.mq.scalar("select count(*) = 3 from mqpg.half_parked"))

        eventually(parked)

    def filter_with_a_typing_error(self) -> None:
        self.mq.call("subscribe", "receipts", "payments", filter='$.stat == "paid"')
        self._consume("receipts")

    def poison_message(self) -> None:
        """One message fails each time, and its queue waits for it."""
        self.mq.call("subscribe", "billing", "orders", on_failure="block_queue", max_attempts=1000)
        self.mq.send("orders", '{"order": "poison", "amount": "free"}', key="o-poison")
        self._consume("billing")

    def renamed_consumer(self) -> None:
        """A consumer that owns its queues was started again under another name."""
        self.mq.call("subscribe", "stock", "deliveries", mode="pinned")
        for n in range(8):
            self.mq.send("deliveries", '{"piece": 1}', key=f"d-{n}")
        self._consume("stock", STOCK_CONSUMER="stock-1")
        owned = "select count(*) = 2 from mqpg.subscription_lag where owner = 'stock-1' and lag = 0"
        eventually(lambda: self.mq.scalar(owned))
        self.fleet.retire(["stock"])
        self._consume("stock", STOCK_CONSUMER="stock-one")

    def full_queue(self) -> None:
        """A consumer takes messages one by one and acknowledges none of them."""
        self.mq.call("subscribe", "mailer", "mails", mode="shared")
        for n in range(200):
            self.mq.send("mails", f'{{"mail": {n}}}', key=f"m-{n}")

        def full() -> bool:
            got = self.mq.receive("mails", group="mailer", max_messages=1, lease="1 hour", consumer="mailer-7")
            return not got and bool(self.mq.scalar("select sum(claims) = 128 from mqpg.subscription_lag"))

        eventually(full, interval=0)

    def old_transaction(self) -> None:
        """A program has sent a message, and never commits."""
        program = self.broker.session()
        program.execute("set application_name = 'import job'")
        program.execute("begin")
        self.uncommitted = program.send("payments", '{"state": "paid", "order": "imported"}', key="p-import")

    def _consume(self, name: str, **variables: str) -> None:
        given = [f"{key}={value}" for key, value in variables.items()]
        self.fleet.add(name, ["env", *given, _MQPG, "consume", f"tests.diagnosis.shop:{name}"])

    def _send(self) -> None:
        n = 0
        with mqpg.connect(self.dsn) as mq:
            while not self.stop.wait(0.5):
                n += 1
                mq.send("orders", {"order": f"o-{n}", "amount": n}, key=f"o-{n}")
                mq.send("payments", {"state": "paid", "order": f"o-{n}"}, key=f"p-{n}")
                mq.send("deliveries", {"piece": n}, key=f"d-{n}")
                mq.send("mails", {"mail": n}, key=f"m-{n}")

    def close(self) -> None:
        self.stop.set()
        if self.load.ident is not None:
            self.load.join()
        self.fleet.retire(self.fleet.names)
        self.broker.close()


@contextmanager
def broken_shop(dsn: str, folder: Path) -> Iterator[BrokenShop]:
    """Run the shop, with its load."""
    shop = BrokenShop(dsn, folder)
    try:
        shop.start()
        yield shop
    finally:
        shop.close()


if __name__ == "__main__":
    with broken_shop(sys.argv[1], Path(sys.argv[2])) as running:
        print(f"everything is broken. The message that is missed: {running.uncommitted}", flush=True)
        while True:
            time.sleep(3600)
