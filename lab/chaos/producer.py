"""A producer node, `python -m lab.chaos.producer LAYOUT NUMBER`: all protocols, a thread for each.

It runs until it is killed. What it was told is in its journal, and what it did is in its databases.
Once the file `quiet` exists it makes no more messages and only finishes those that are open.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
from sqlalchemy.exc import SQLAlchemyError

import mqpg
from mqpg.cli.stop_signals import stop_on_eof, stop_on_signals

from .context import PERIOD, Context, Parties
from .journal import Journal
from .names import Layout
from .protocols import PROTOCOLS

__all__ = ["TROUBLE", "main", "read_layout"]

log = logging.getLogger("lab.chaos.producer")
TROUBLE = (mqpg.Error, SQLAlchemyError, psycopg.Error)  # what the faults may cause


def read_layout(path: str) -> tuple[Layout, threading.Event]:
    """Begin a node: where everything is, and an event that SIGTERM or the end of its input sets."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    stop = threading.Event()
    stop_on_signals(stop)
    stop_on_eof(stop)
    return Layout.read(path), stop


def _produce(one: Context, layout: Layout, stop: threading.Event) -> None:
    """Make transactions of one protocol, evenly over time, until the run is over."""
    due = time.monotonic()
    while not stop.is_set() and not layout.quiet.exists():
        try:
            PROTOCOLS[one.name](one)
        except TROUBLE as error:
            one.forget()
            log.info("%s: %s: %s", one.name, type(error).__name__, " ".join(str(error).split())[:200])
            stop.wait(0.3)
            continue
        now = time.monotonic()
        due = max(due, now - PERIOD) + PERIOD  # time that was lost is not made up for
        stop.wait(max(0.0, due - now))


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
    """Run the node."""
    layout, stop = read_layout(path)
    log.setLevel(logging.INFO)
    journal, parties = Journal(Path(layout.folder), int(number)), Parties(layout, int(number))
    work: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (_produce, (Context(parties, journal, name, layout), layout, stop)) for name in layout.protocols
    ]
    # They finish what a crash left open.
    work += [
        (parties.shop.run_recovery, (stop, 2.0)),
        (parties.outbox.run_recovery, (stop, 1.0)),
        (parties.recon.run, (stop, 2.0)),
        (parties.post.run_answers, (stop, 1.0)),
        (_sweep, (parties, layout, stop)),
    ]
    threads = [threading.Thread(target=target, args=arguments, daemon=True) for target, arguments in work]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
