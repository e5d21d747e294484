"""What `mqpg worker` and `mqpg consume` do, in a process that has not loaded the command line."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mqpg.cli.stop_signals import SignalWaiter, stop_on_eof, stop_on_signals
from mqpg.embedded import locate
from mqpg.schema.compatibility import EXIT_TOO_OLD
from mqpg.values import errors
from mqpg.values.words import printable

from . import ROLES, worker_of
from .logs import LogFormat, configure
from .session import connect, patiently

if TYPE_CHECKING:
    from .supervisor import Task
    from .worker import Options

__all__ = ["consume", "parse_ledgers", "work"]

_EXIT_USAGE = 2  # of what serves metrics: the address cannot be used


def work(
    role: str | None,
    dsn: str | None,
    *,
    ledgers: Sequence[str],
    metrics: str | None,
    health: bool,
    at_eof: bool,
    log_level: str,
    log_format: str,
    **settings: Any,
) -> None:
    """Run one role until a signal, or all of them under a supervisor. `settings` are fields of `Options`.

    With `health` it starts nothing, but asks the broker whether the workers of this host work.
    """
    if role is not None and role not in ROLES:
        raise errors.ConfigurationError(f"role must be one of {', '.join(ROLES)}, not {role!r}")
    if role is None and settings["interval"] is not None:
        raise errors.ConfigurationError("--interval goes with one role, because each role has its own default")
    if health:
        _ask_health(dsn, list(ROLES) if role is None else [role])
        return
    from .worker import Options

    options = Options(dsn=locate.resolve(dsn), ledgers=parse_ledgers(ledgers), **settings)
    log_as = partial(configure, level=log_level, form=LogFormat(log_format))
    log_as(role or "supervisor")
    if role is None:
        _supervise(options, at_eof, log_as, metrics)
    else:
        stop, _ = _stop_event(at_eof)
        with _serving(metrics, options.dsn):
            worker_of(role)(options, stop).run()


def consume(
    handlers: str,
    dsn: str | None,
    *,
    queues: str | None,
    lifespan: str | None,
    heartbeat: float,
    patience: float,
    at_eof: bool,
    log_level: str,
    log_format: str,
    **options: Any,
) -> None:
    """Run consumers until a signal. `options` are those of `with_options`; None: what the decorator says."""
    # SQLAlchemy comes with them if a consumer has a database of its own.
    from mqpg.application import find_consumers, load

    from . import consume as runner

    configure("consumer", log_level, LogFormat(log_format))
    stop, take_signals = _stop_event(at_eof)
    options["queues"] = None if queues is None else runner.parse_queues(queues)
    given = {name: value for name, value in options.items() if value is not None}
    found = {target: one.with_options(**given) for target, one in find_consumers(handlers).items()}
    broker, shared = locate.resolve(dsn), load(lifespan) if lifespan else None
    take_signals()
    if ":" not in handlers:
        runner.run_all(found, broker, stop, heartbeat=heartbeat, patience=patience, lifespan=shared)
    else:
        with runner.process(shared) if shared else nullcontext(asyncio.run) as run_async:
            runner.run(
                found[handlers], handlers, broker, stop, heartbeat=heartbeat, patience=patience, run_async=run_async
            )


def parse_ledgers(options: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--ledger`, for instance `shop=sqlite:////data/shop.db`, to the URL of each name.

    A name may come several times. It has all of these URLs then, with blanks between, as in a variable.
    """
    pairs: dict[str, str] = {}
    for option in options:
        name, separator, url = option.partition("=")
        if not (separator and name and "://" in url):
            raise errors.ConfigurationError(
                "--ledger must be name=url with a SQLAlchemy URL, for instance shop=sqlite:////data/shop.db"
            )
        pairs[name] = f"{pairs[name]} {url}" if name in pairs else url
    return pairs


def _ask_health(dsn: str | None, roles: Sequence[str]) -> None:
    """Print which workers of this host are silent or fail, or that the disk is full, and exit with 1; or print ok."""
    from mqpg.status import Source
    from mqpg.status.workers import failing_roles, full_disk, silent_roles

    source, host = Source(dsn, "mqpg worker --health", 1), socket.gethostname()
    try:
        silent = silent_roles(source.rows, host, roles)
        failing = full_disk(source.rows) + failing_roles(source.rows, host, roles)
    finally:
        source.close()
    if silent:
        failing.insert(0, f"no heartbeat of {', '.join(silent)} on {host} within 30 s")
    if failing:
        sys.stderr.write("\n".join(map(printable, failing)) + "\n")
        raise SystemExit(1)
    sys.stdout.write("ok\n")


def _serving(metrics: str | None, dsn: str) -> AbstractContextManager[object]:
    """Serve metrics while the block runs, if there is an address."""
    if metrics is None:
        return nullcontext()
    from mqpg.metrics.server import serving  # needs the extra
    from mqpg.status import Source

    return serving(metrics, Source(dsn, "mqpg metrics"))


def _supervise(options: Options, at_eof: bool, log_as: Callable[[str], None], metrics: str | None) -> None:
    """Run all roles, and what serves metrics, as child processes."""
    from .supervisor import Supervisor

    stop = SignalWaiter(at_eof)
    first = patiently(lambda: connect(options.dsn, "supervisor"), stop, options.patience)
    if first is not None:
        first.close()
    patient = replace(options, patience=60.0)

    def run(role: str, stop: threading.Event) -> None:
        log_as(role)
        worker_of(role)(patient, stop).run()

    def serve(stop: threading.Event) -> None:
        log_as("metrics")
        with _serving(metrics, options.dsn):
            stop.wait()

    for role in ROLES:
        worker_of(role)  # loaded here, it is shared
    tasks: dict[str, Task] = {role: partial(run, role) for role in ROLES}
    hopeless = dict.fromkeys(ROLES, frozenset({EXIT_TOO_OLD}))
    if metrics is not None:
        tasks["metrics"], hopeless["metrics"] = serve, frozenset({_EXIT_USAGE})
    if status := Supervisor(tasks, stop, hopeless).run():
        raise SystemExit(status)


def _stop_event(at_eof: bool) -> tuple[threading.Event, Callable[[], None]]:
    """Return the event that ends this process, and what takes its signals back."""
    stop = threading.Event()
    take_signals = stop_on_signals(stop)
    if at_eof:
        stop_on_eof(stop)
    return stop, take_signals
