"""The clients of a failover: three kinds of producer and two of consumer, with a DSN of two hosts."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import sqlalchemy

import mqpg
from mqpg import errors

__all__ = ["BROKER_TABLES", "GROUP", "LOCAL_GROUP", "SHOP_TABLES", "TOPIC", "Clients"]

TOPIC, GROUP, LOCAL_GROUP = "orders", "board", "stock"
BROKER_TABLES = (
    "create table effect (n bigint not null, message_id bigint not null, at timestamptz default clock_timestamp())"
)
SHOP_TABLES = "create table sale (n bigint primary key); create table effect (n bigint not null)"
_PAUSE = 0.02  # a producer's longest pause in seconds
# What a client may raise while its broker fails over.
_EXPECTED = (errors.ConnectionFailed, errors.OutcomeUnknown)


class Clients:
    """Works until `stop`. Every error that is not one of mqpg's connection errors is a failure.
    Attributes:
        unsure: The numbers of plain sends whose answer was lost. They may have been sent once, or not.
    """

    def __init__(self, broker: str, shop: str, seed: int) -> None:
        self._broker, self._shop, self._seed = broker, shop, seed
        self._producing, self._consuming = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(4)
        self._work: list[Future[None]] = []
        self.sent: list[tuple[int, float]] = []
        self.unsure: set[int] = set()
        self.expected_errors = 0

    def start(self) -> None:
        """Start a thread for each client."""
        self._work = [self._pool.submit(one) for one in (self._send, self._sell, self._consume, self._apply)]

    def require_well(self) -> None:
        """Raise what a client raised."""
        for one in self._work:
            if one.done():
                one.result()

    def end_producers(self) -> None:
        """Let the producers finish what they have begun."""
        self._producing.set()
        for one in self._work[:2]:
            one.result(120)

    def close(self) -> None:
        """End all of them."""
        self._producing.set()
        self._consuming.set()
        self._pool.shutdown()
        self.require_well()

    def _send(self) -> None:
        """T1: an odd number is sent with a dedup id until it is acknowledged, an even one plainly and once."""
        rng, n = random.Random(f"{self._seed} send"), 0
        with mqpg.connect(self._broker) as mq:
            while not self._producing.is_set():
                n += 1
                self._send_until_acknowledged(mq, n) if n % 2 else self._send_once(mq, n)
                time.sleep(rng.random() * _PAUSE)

    def _send_until_acknowledged(self, mq: mqpg.Client, n: int) -> None:
        while True:
            try:
                mq.send(TOPIC, {"n": n}, dedup_id=str(n))
            except _EXPECTED:
                self.expected_errors += 1
                time.sleep(0.05)
                continue
            self.sent.append((n, time.time()))
            return

    def _send_once(self, mq: mqpg.Client, n: int) -> None:
        try:
            mq.send(TOPIC, {"n": n})
        except _EXPECTED:
            self.expected_errors += 1
            self.unsure.add(n)
        else:
            self.sent.append((n, time.time()))

    def _sell(self) -> None:
        """T2: a sale in the shop and its message; what is unknown is left to recovery."""
        rng, n = random.Random(f"{self._seed} sell"), 0
        with (
            mqpg.connect(self._broker) as mq,
            mqpg.TransactionalProducer(mq, group="shop", ledger=self._shop) as producer,
        ):
            while not self._producing.is_set():
                n -= 1
                try:
                    with producer.transaction(TOPIC, {"n": n}) as tx:
                        tx.execute(sqlalchemy.text("insert into sale values (:n)"), {"n": n})
                except _EXPECTED:
                    self.expected_errors += 1
                time.sleep(rng.random() * _PAUSE)

    def _consume(self) -> None:
        """C1 with a journal."""

        @mqpg.consumer(TOPIC, group=GROUP, journal=True, max_messages=20, lease=timedelta(seconds=5))
        def board(message: mqpg.Message, conn: Any) -> None:
            conn.execute("insert into effect values (%s, %s)", (message.payload["n"], message.message_id))

        with mqpg.connect(self._broker) as mq:
            board.run(mq, self._consuming)

    def _apply(self) -> None:
        """C2 with a journal, in the shop's database."""

        @mqpg.consumer(TOPIC, group=LOCAL_GROUP, database=self._shop, consumer="one", journal=True, max_messages=20)
        def stock(message: mqpg.Message, conn: Any) -> None:
            conn.execute(sqlalchemy.text("insert into effect values (:n)"), {"n": message.payload["n"]})

        with mqpg.connect(self._broker) as mq, closing(stock):
            stock.run(mq, self._consuming)
