"""The clients of a failover trial: two kinds of producer and a consumer, all with a DSN of two hosts."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import sqlalchemy

import mqpg
from mqpg import errors

__all__ = ["BROKER_TABLES", "GROUP", "SHOP_TABLES", "TOPIC", "Clients"]

TOPIC, GROUP = "orders", "board"
BROKER_TABLES = (
    "create table effect (n bigint not null, message_id bigint not null, at timestamptz default clock_timestamp())"
)
SHOP_TABLES = "create table sale (n bigint primary key)"
_PAUSE = 0.02  # a producer's longest pause in seconds
# What a client may raise while its broker fails over.
_EXPECTED = (errors.ConnectionFailed, errors.OutcomeUnknown)


class Clients:
    """Works until `stop`. Every error that is not one of mqpg's connection errors is a failure.

    Args:
        broker: The DSN of both hosts of the broker.
        shop: The SQLAlchemy URL of the producers' own database.
        seed: The seed of the pauses.

    Attributes:
        sent: The numbers that `send` has acknowledged, and when.
    """

    def __init__(self, broker: str, shop: str, seed: int) -> None:
        self._broker, self._shop, self._seed = broker, shop, seed
        self._producing, self._consuming = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(3)
        self._work: list[Future[None]] = []
        self.sent: list[tuple[int, float]] = []
        self.expected_errors = 0

    def start(self) -> None:
        """Start a thread for each client."""
        self._work = [self._pool.submit(one) for one in (self._send, self._sell, self._consume)]

    def are_well(self) -> bool:
        """Raise what a client raised, or return True."""
        for one in self._work:
            if one.done():
                one.result()
        return True

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
        self.are_well()

    def _send(self) -> None:
        """T1: a number is sent with a dedup id until it is acknowledged."""
        rng, n = random.Random(f"{self._seed} send"), 0
        with mqpg.connect(self._broker) as mq:
            while not self._producing.is_set():
                n += 1
                self._send_until_acknowledged(mq, n)
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
