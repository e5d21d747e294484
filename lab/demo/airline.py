"""A producer process, `python -m lab.demo.airline FLIGHTS SHARE SHARES THREADS RATE`.

Its share of the flights departs, at most RATE a second. Each flight is one run of protocol T2: half
message, local transaction (ledger row and departure), commit. The commits of many flights are sent
together, some milliseconds later. A cancelled flight begins in the same way, and then both are rolled
back.

The airline's own tables decide which flights are done. As a consequence, a process that was killed
anywhere repeats, when it is started again, only the flights that have neither a departure nor a
cancellation. Each of them gets a new half message, and the check-back rolls the old one back.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from sqlalchemy import Engine, create_engine, text
from sqlalchemy import exc as sa_exc

import mqpg
from lab.processes import persist

from .flights import Flight, read_flights, share_of
from .tables import LEDGER_URL, PRODUCER_GROUP, TOPIC

__all__ = ["Airline", "main"]

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

_DEPART = text(
    "insert into departure values (:number, cast(:day as date), :carrier, :flight, :tail, :origin, :dest, :delay)"
)
_CANCEL = text("insert into cancellation values (:number, :handle) on conflict do nothing")
_DONE = "select number from departure union all select number from cancellation"
_IS_DONE = text(f"select from ({_DONE}) done where number = :number")

_persist = partial(persist, patience=120.0, on=_TRANSIENT)


class Airline:
    """Books flights into the airline's database and sends a message about each."""

    def __init__(self, mq: mqpg.Client, engine: Engine) -> None:
        self._engine = engine
        self.producer = mqpg.TransactionalProducer(mq, group=PRODUCER_GROUP, ledger=engine, decide_in_background=True)

    def recorded(self) -> set[int]:
        """The numbers of all flights that are done."""
        with self._engine.connect() as conn:
            return set(conn.execute(text(_DONE)).scalars())

    def handle(self, flight: Flight) -> None:
        """Bring one flight to its end, whatever breaks on the way."""
        try:
            self._book(flight)
        except _TRANSIENT:
            _persist(partial(self._book_again, flight))

    def _book(self, flight: Flight) -> None:
        with self.producer.transaction(TOPIC, flight.as_message(), key=flight.tail) as tx:
            tx.execute(_DEPART, flight.as_message() | {"tail": flight.tail})
            if flight.cancelled:
                tx.rollback()
        if flight.cancelled:
            with self._engine.begin() as conn:
                conn.execute(_CANCEL, {"number": flight.number, "handle": tx.handle})

    def _book_again(self, flight: Flight) -> None:
        # An attempt before may have succeeded, and only its answer was lost.
        with self._engine.connect() as conn:
            is_done = conn.execute(_IS_DONE, {"number": flight.number}).first() is not None
        if not is_done:
            self._book(flight)


def _fly(airline: Airline, flights: Iterable[Flight], seconds: float) -> None:
    """Handle the flights one after the other, each at least so many seconds after the one before."""
    due = time.monotonic()
    for flight in flights:
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due, time.monotonic() - seconds) + seconds
        airline.handle(flight)


def _end_with_the_parent() -> None:
    sys.stdin.read()  # the parent holds the other end
    os._exit(1)


def main(limit: int, share: int, shares: int, threads: int, rate: float) -> None:
    """Do a share of the first `limit` flights. What a kill leaves open is the next process's work."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    engine = create_engine(os.environ[LEDGER_URL], pool_size=threads + 2)
    with _persist(mqpg.connect) as mq:
        airline = Airline(mq, engine)
        threading.Thread(target=airline.producer.run_recovery, args=(threading.Event(),), daemon=True).start()
        done = _persist(airline.recorded)
        todo = (flight for flight in read_flights(limit) if flight.number not in done)
        with ThreadPoolExecutor(threads, "airline") as pool:
            parts = share_of(todo, share, shares, threads)
            for one in [pool.submit(_fly, airline, part, threads / rate) for part in parts]:
                one.result()
        # Send the decisions that were not sent because of a crash or a lost connection.
        while _persist(lambda: airline.producer.recover(older_than=timedelta(0))):
            pass


if __name__ == "__main__":
    *_numbers, _rate = sys.argv[1:]
    _limit, _share, _shares, _threads = map(int, _numbers)
    main(_limit, _share, _shares, _threads, float(_rate))
