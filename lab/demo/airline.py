"""A producer process, `python -m lab.demo.airline`: its share of the flights departs.

Each flight is one run of protocol T2: half message, local transaction (ledger row and departure),
commit. A cancelled flight begins in the same way, and then both are rolled back.

The airline's own tables decide which flights are done. As a consequence, a process that was killed
anywhere repeats, when it is started again, only the flights that have neither a departure nor a
cancellation. Each of them gets a new half message, and the check-back rolls the old one back.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from datetime import date, timedelta
from itertools import count
from typing import TypeVar

from sqlalchemy import Engine, create_engine, select
from sqlalchemy import exc as sa_exc
from sqlalchemy.dialects.postgresql import insert

import mqpg
from mqpg.cli.stop_signals import stop_on_eof, stop_on_signals
from mqpg.connection.backoff import Backoff

from .flights import ALL, Flight, read_flights, share_of
from .tables import LEDGER_URL, PRODUCER_GROUP, TOPIC, cancellation, departure

__all__ = ["Airline", "main", "persist"]

log = logging.getLogger("lab.demo.airline")

# Transient errors: a restarted server, a lost race with our own dead predecessor, the fence of a
# check-back.
_TRANSIENT = (
    mqpg.ConnectionFailed,
    mqpg.Fenced,
    mqpg.LockTimeout,
    mqpg.SerializationFailure,
    sa_exc.OperationalError,
    sa_exc.InterfaceError,
    sa_exc.IntegrityError,
)
_PATIENCE = 120.0  # seconds of transient errors

T = TypeVar("T")


def persist(work: Callable[[], T], stop: threading.Event) -> T:
    """Do something, again and again while it ends in a transient error.

    Raises:
        Exception: The last error, after two minutes, or when `stop` is set.
    """
    deadline, backoff = time.monotonic() + _PATIENCE, Backoff(0.05, 1.0)
    while True:
        try:
            return work()
        except _TRANSIENT:
            if stop.is_set() or time.monotonic() > deadline:
                raise
            stop.wait(backoff.next())


class Airline:
    """Books flights into the airline's database and sends a message about each.

    Args:
        mq: A client of the broker.
        engine: The airline's database, which also holds the ledger.
        stop: Ends the attempts at what fails.
    """

    def __init__(self, mq: mqpg.Client, engine: Engine, stop: threading.Event) -> None:
        self._engine, self._stop = engine, stop
        self.producer = mqpg.TransactionalProducer(mq, group=PRODUCER_GROUP, ledger=engine)

    def recorded(self) -> set[int]:
        """The numbers of all flights that are done."""
        done = select(departure.c.number).union_all(select(cancellation.c.number))

        def read() -> set[int]:
            with self._engine.connect() as conn:
                return set(conn.execute(done).scalars())

        return persist(read, self._stop)

    def handle(self, flight: Flight) -> None:
        """Bring one flight to its end, whatever breaks on the way."""
        attempts = count(1)

        def book() -> None:
            # A previous attempt may have succeeded, and only its answer was lost.
            if next(attempts) == 1 or not self._is_recorded(flight):
                self._book(flight)

        persist(book, self._stop)

    def finish(self) -> None:
        """Send the decisions that were not sent because of a crash or a lost connection."""
        while persist(lambda: self.producer.recover(older_than=timedelta(0)), self._stop):
            pass

    def _book(self, flight: Flight) -> None:
        values = flight.as_message() | {"tail": flight.tail, "day": date.fromisoformat(flight.day)}
        with self.producer.transaction(TOPIC, flight.as_message(), key=flight.tail) as tx:
            tx.execute(insert(departure).values(values))
            if flight.cancelled:
                tx.rollback()
        if flight.cancelled:
            record = insert(cancellation).values(number=flight.number, handle=tx.handle)
            with self._engine.begin() as conn:
                conn.execute(record.on_conflict_do_nothing())

    def _is_recorded(self, flight: Flight) -> bool:
        with self._engine.connect() as conn:
            return any(
                conn.execute(select(table.c.number).where(table.c.number == flight.number)).first()
                for table in (departure, cancellation)
            )


class _Rate:
    """An upper limit of the flights per second, which the threads share. None: no limit."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 1.0 / rate if rate else 0.0
        self._next, self._lock = 0.0, threading.Lock()

    def wait(self, stop: threading.Event) -> bool:
        """Block until the next flight may begin. False: `stop` was set meanwhile."""
        with self._lock:
            start = max(self._next, time.monotonic())
            self._next = start + self._gap
        return not stop.wait(max(0.0, start - time.monotonic()))


def _fly(airline: Airline, flights: list[Flight], rate: _Rate, stop: threading.Event) -> None:
    for flight in flights:
        if not rate.wait(stop):
            return
        airline.handle(flight)


def _work(airline: Airline, options: argparse.Namespace, stop: threading.Event) -> None:
    done = airline.recorded()
    todo = (flight for flight in read_flights(options.flights) if flight.number not in done)
    shares = share_of(todo, options.share, options.shares, options.threads)
    log.info("%d flights to do, %d recorded in all", sum(map(len, shares)), len(done))
    rate = _Rate(options.rate)
    with ThreadPoolExecutor(options.threads, "airline") as pool:
        futures = [pool.submit(_fly, airline, flights, rate, stop) for flights in shares]
        wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.done() and future.exception() for future in futures):
            stop.set()
    for future in futures:
        future.result()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.demo.airline",
        description=f"Replay flights as transactions. Broker: MQPG_DATABASE_URL; airline's database: {LEDGER_URL}.",
    )
    parser.add_argument("--flights", type=int, default=ALL, help="replay the first N flights of the file")
    parser.add_argument("--share", type=int, default=0, help="the number of this process's share, from 0")
    parser.add_argument("--shares", type=int, default=1, help="number of shares, one for each process")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rate", type=float, help="largest number of flights per second")
    parser.add_argument("--stop-on-eof", action="store_true", help="stop when standard input ends")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Do a share of the flights; the exit status is 0 when all of it is done or SIGTERM arrived."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    options = _options(argv)
    stop = threading.Event()
    stop_on_signals(stop)
    if options.stop_on_eof:
        stop_on_eof(stop)
    engine = create_engine(os.environ[LEDGER_URL], pool_size=options.threads + 2)
    with persist(mqpg.connect, stop) as mq:
        airline = Airline(mq, engine, stop)
        recovery = threading.Thread(target=airline.producer.run_recovery, args=(stop,), daemon=True)
        recovery.start()
        _work(airline, options, stop)
        if not stop.is_set():
            airline.finish()
        stop.set()
        recovery.join(timeout=10)
    engine.dispose()
    return 0


if __name__ == "__main__":
    sys.exit(main())
