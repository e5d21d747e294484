"""A producer node, `python -m lab.chaos.producer LAYOUT NUMBER`: all protocols, a thread for each.

It runs until it is killed. What it was told is in its journal, and what it did is in its databases.
Once the file `quiet` exists it makes no more messages and only finishes those that are open.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import psycopg
from sqlalchemy.exc import SQLAlchemyError

import mqpg
from mqpg.cli.stop_signals import stop_on_eof, stop_on_signals

from .journal import Journal
from .kit import PERIOD, Kit, Parties
from .names import Layout
from .protocols import PROTOCOLS

__all__ = ["main"]

log = logging.getLogger("lab.chaos.producer")
TROUBLE = (mqpg.Error, SQLAlchemyError, psycopg.Error)  # what the faults may cause


class Pace:
    """Spreads transactions evenly over time.

    Args:
        seconds: From one transaction to the next one.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = time.monotonic()

    def wait(self, stop: threading.Event) -> None:
        """Wait until the next transaction may follow. Time that was lost is not made up for."""
        now = time.monotonic()
        self._due = max(self._due, now - self._seconds) + self._seconds
        stop.wait(max(0.0, self._due - now))


def produce(kit: Kit, layout: Layout, pace: Pace, stop: threading.Event, trouble: Counter[str]) -> None:
    """Make transactions of one protocol until the run is over."""
    work = PROTOCOLS[kit.name]
    while not stop.is_set() and not layout.quiet.exists():
        try:
            work(kit)
            pace.wait(stop)
        except TROUBLE as error:
            kit.forget()
            trouble[type(error).__name__] += 1
            log.info("%s: %s: %s", kit.name, type(error).__name__, " ".join(str(error).split())[:200])
            stop.wait(0.3)


def _finish(parties: Parties, stop: threading.Event) -> list[threading.Thread]:
    """Start the loops that finish what a crash left open."""
    return [
        threading.Thread(target=loop, args=(stop, seconds), daemon=True)
        for loop, seconds in (
            (parties.shop.run_recovery, 2.0),
            (parties.outbox.run_recovery, 1.0),
            (parties.recon.run, 2.0),
            (parties.post.run_answers, 1.0),
        )
    ]


def _sweep(parties: Parties, layout: Layout, stop: threading.Event) -> None:
    """Once nothing new comes, leave no row to its age."""
    while not stop.wait(1.0):
        if layout.quiet.exists():
            for recover in (parties.shop.recover, parties.outbox.recover):
                try:
                    recover(older_than=timedelta(0))
                except TROUBLE as error:
                    log.info("the last recovery: %s", " ".join(str(error).split())[:200])


def main(path: str, number: str) -> None:
    """Run the node until SIGTERM or the end of standard input."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    log.setLevel(logging.INFO)
    layout, stop = Layout.read(path), threading.Event()
    stop_on_signals(stop)
    stop_on_eof(stop)
    journal = Journal(Path(layout.folder), int(number))
    parties, trouble = Parties(layout, int(number)), Counter[str]()
    threads = [
        threading.Thread(
            target=produce,
            args=(Kit(parties, journal, name, layout), layout, Pace(PERIOD), stop, trouble),
            name=name,
            daemon=True,
        )
        for name in layout.protocols
    ]
    threads += [*_finish(parties, stop), threading.Thread(target=_sweep, args=(parties, layout, stop), daemon=True)]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(3)
    log.info("errors that the faults caused: %s", dict(trouble))


if __name__ == "__main__":
    main(*sys.argv[1:])
