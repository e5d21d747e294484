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
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from datetime import date, timedelta
from functools import partial

import stamina
from sqlalchemy import Engine, create_engine, select
from sqlalchemy import exc as sa_exc
from sqlalchemy.dialects.postgresql import insert

import mqpg
from mqpg.cli.stop_signals import stop_on_eof, stop_on_signals

from .flights import ALL, Flight, read_flights, share_of
from .names import LEDGER_URL, PRODUCER_GROUP, TOPIC
from .pace import Pace
from .tables import cancellation, departure

__all__ = ["Airline", "main"]

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
_retry = partial(stamina.retry_context, on=_TRANSIENT, attempts=None, timeout=120, wait_initial=0.05, wait_max=1.0)


class Airline:
    """Books flights into the airline's database and sends a message about each.

    Args:
        mq: A client of the broker.
        engine: The airline's database, which also holds the ledger.
    """

    def __init__(self, mq: mqpg.Client, engine: Engine) -> None:
        self._engine = engine
        self.producer = mqpg.TransactionalProducer(mq, group=PRODUCER_GROUP, ledger=engine)

    def recorded(self) -> set[int]:
        """The numbers of all flights that are done."""
        with self._engine.connect() as conn:
            done = select(departure.c.number).union_all(select(cancellation.c.number))
            return set(conn.execute(done).scalars())

    def handle(self, flight: Flight) -> None:
        """Bring one flight to its end, whatever breaks on the way.

        Raises:
            Exception: The last error, after two minutes of transient ones.
        """
        for attempt in _retry():
            with attempt:
                if attempt.num > 1 and self._is_recorded(flight):
                    return  # the previous attempt succeeded, only its answer was lost
                if flight.cancelled:
                    self._cancel(flight)
                else:
                    self._depart(flight)

    def _depart(self, flight: Flight) -> None:
        with self.producer.transaction(TOPIC, flight.as_message(), key=flight.tail) as tx:
            tx.execute(insert(departure).values(_row(flight)))

    def _cancel(self, flight: Flight) -> None:
        with self.producer.transaction(TOPIC, flight.as_message(), key=flight.tail) as tx:
            tx.execute(insert(departure).values(_row(flight)))
            tx.rollback()
        record = insert(cancellation).values(number=flight.number, handle=tx.handle)
        with self._engine.begin() as conn:
            conn.execute(record.on_conflict_do_nothing())

    def _is_recorded(self, flight: Flight) -> bool:
        with self._engine.connect() as conn:
            return any(
                conn.execute(select(table.c.number).where(table.c.number == flight.number)).first()
                for table in (departure, cancellation)
            )


def _row(flight: Flight) -> dict[str, object]:
    return flight.as_message() | {"tail": flight.tail, "day": date.fromisoformat(flight.day)}


def _fly(airline: Airline, lane: list[Flight], pace: Pace, stop: threading.Event) -> None:
    for flight in lane:
        if not pace.wait(stop):
            return
        airline.handle(flight)


def _work(airline: Airline, options: argparse.Namespace, stop: threading.Event) -> None:
    for attempt in _retry():
        with attempt:
            done = airline.recorded()
    todo = (flight for flight in read_flights(options.flights) if flight.number not in done)
    lanes = share_of(todo, options.share, options.shares, options.threads)
    log.info("%d flights to do, %d recorded in all", sum(map(len, lanes)), len(done))
    pace = Pace(options.rate)
    with ThreadPoolExecutor(options.threads, "lane") as pool:
        futures = [pool.submit(_fly, airline, lane, pace, stop) for lane in lanes]
        wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.done() and future.exception() for future in futures):
            stop.set()
    for future in futures:
        future.result()


def _finish(airline: Airline) -> None:
    """Send the decisions that were not sent because of a crash or a lost connection."""
    for attempt in _retry():
        with attempt:
            while airline.producer.recover(older_than=timedelta(0)):
                pass


def _connect() -> mqpg.Client:
    """Connect to the broker; wait for it where it is just being restarted."""
    for attempt in _retry():
        with attempt:
            return mqpg.connect()
    raise AssertionError("stamina returns or raises")


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.demo.airline",
        description=f"Replay flights as transactions. Broker: MQPG_DATABASE_URL; airline's database: {LEDGER_URL}.",
    )
    parser.add_argument("--flights", type=int, default=ALL, help="replay the first N flights of the file")
    parser.add_argument("--share", type=int, default=0, help="the number of this process's share, from 0")
    parser.add_argument("--shares", type=int, default=1, help="number of shares, one for each process")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rate", type=float, default=None, help="largest number of flights per second")
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
    with _connect() as mq:
        airline = Airline(mq, engine)
        recovery = threading.Thread(target=airline.producer.run_recovery, args=(stop,), daemon=True)
        recovery.start()
        _work(airline, options, stop)
        if not stop.is_set():
            _finish(airline)
        stop.set()
        recovery.join(timeout=10)
    engine.dispose()
    return 0


if __name__ == "__main__":
    sys.exit(main())
