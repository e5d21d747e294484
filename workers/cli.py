"""The commands `mqpg worker` and `mqpg consume`."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

from mqpg.cli.options import Dsn, printable, warn_of_password
from mqpg.cli.stop_signals import SignalWaiter, stop_on_eof, stop_on_signals
from mqpg.embedded import locate
from mqpg.schema.compatibility import EXIT_TOO_OLD
from mqpg.status import Source
from mqpg.status.workers import failing_roles, full_disk, silent_roles
from mqpg.values import errors

from . import ROLES, worker_of
from .ledger_urls import parse_ledgers
from .logs import LogFormat, configure
from .session import CALL_TIMEOUT, connect, patiently
from .supervisor import Supervisor, Task
from .worker import Options

__all__ = ["consume", "worker"]

_EXIT_USAGE = 2  # of what serves metrics: the address cannot be used

Ledgers = Annotated[
    list[str] | None,
    typer.Option(
        "--ledger",
        help="A producers' ledger: name=url. May be repeated, for one name too. Default: MQPG_LEDGER_<NAME>.",
        callback=warn_of_password,
    ),
]
Interval = Annotated[
    float | None,
    typer.Option(
        "--interval",
        min=0.001,
        help="The longest pause of one role, in seconds. Default: appender 0.05, compensator 1, keeper 60.",
        show_default=False,
    ),
]
AppendSize = Annotated[int, typer.Option("--max-messages", min=1, help="How many messages one append should move.")]
CheckTime = Annotated[
    float,
    typer.Option(
        "--check-timeout", min=0.01, help="How many seconds a checker function may take for one half message."
    ),
]
CallTime = Annotated[
    float,
    typer.Option(
        "--call-timeout", min=0.1, help="How many seconds to wait for a server that says nothing, before reconnecting."
    ),
]
AdoptPromoted = Annotated[
    bool,
    typer.Option(
        "--adopt-promoted",
        help="Continue by yourself after a failover: the appender calls adopt_promoted() on a promoted server.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="HOST:PORT",
        help="Serve /metrics for Prometheus there. Default: nowhere.",
        show_default=False,
    ),
]
AskHealth = Annotated[
    bool,
    typer.Option(
        "--health",
        help="Start nothing, but ask the broker whether the workers of this host send heartbeats and work. Exit status "
        "1 if one does not.",
    ),
]
Beat = Annotated[float, typer.Option("--heartbeat", min=0.05, help="Seconds between two heartbeats.")]
Patience = Annotated[float, typer.Option("--wait", min=0, help="How many seconds to try the first connection.")]
Level = Annotated[str, typer.Option("--log-level", help="The lowest level to log: debug, info, warning or error.")]
Form = Annotated[LogFormat, typer.Option("--log-format", help="The format of log lines on stderr: text or json.")]
Lifespan = Annotated[
    str | None,
    typer.Option(
        "--lifespan",
        metavar="MODULE:NAME",
        help="A function that gives a context manager, also an asynchronous one. It is entered before the first "
        "message and left after the last one.",
    ),
]
Eof = Annotated[
    bool, typer.Option("--stop-on-eof", help="Drain when standard input ends, because the parent process is gone.")
]


def worker(
    role: Annotated[str | None, typer.Argument(help="appender, compensator or keeper, default all three.")] = None,
    dsn: Dsn = None,
    ledger: Ledgers = None,
    interval: Interval = None,
    max_messages: AppendSize = 100_000,
    check_timeout: CheckTime = 30.0,
    call_timeout: CallTime = CALL_TIMEOUT,
    adopt_promoted: AdoptPromoted = False,
    metrics: Metrics = None,
    health: AskHealth = False,
    heartbeat: Beat = 5.0,
    wait: Patience = 10.0,
    at_eof: Eof = False,
    log_level: Level = "info",
    log_format: Form = LogFormat.TEXT,
) -> None:
    """Run appender, compensator and keeper until SIGTERM.

    You can start several copies. One of each role leads, and the others stand by. `mqpg status
    --workers` lists those that report.

    Exit status 4: the schema is too new for this release, from the start or since a migration.
    Upgrade mqpg; a restart cannot help.
    """
    if role is not None and role not in ROLES:
        raise errors.ConfigurationError(f"role must be one of {', '.join(ROLES)}, not {role!r}")
    if role is None and interval is not None:
        raise errors.ConfigurationError("--interval goes with one role, because each role has its own default")
    roles = list(ROLES) if role is None else [role]
    if health:
        _ask_health(dsn, roles)
        return
    options = Options(
        dsn=locate.resolve(dsn),
        interval=interval,
        heartbeat=heartbeat,
        patience=wait,
        max_messages=max_messages,
        check_timeout=check_timeout,
        call_timeout=call_timeout,
        adopt_promoted=adopt_promoted,
        ledgers=parse_ledgers(ledger or []),
    )
    configure(role or "supervisor", log_level, log_format)
    if role is None:
        _supervise(options, at_eof, partial(configure, level=log_level, form=log_format), metrics)
    else:
        stop = _stop_event(at_eof)
        with _serving(metrics, options.dsn):
            worker_of(role)(options, stop).run()


def consume(
    handlers: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:NAME]", help="A function decorated with @mqpg.consumer, or a module: all of them in it."
        ),
    ],
    dsn: Dsn = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            "--consumer",
            help="The name of this consumer. In mode pinned, which a consumer with its own database has, its queues "
            "stay with it. Needed there outside of a terminal. Default: MQPG_CONSUMER.",
        ),
    ] = None,
    queues: Annotated[str | None, typer.Option("--queues", help="Only these queues, for instance 0-3,6.")] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", min=1, help="How many messages one delivery has at most.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, help="How many deliveries are handled at the same time.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, help="How many seconds one call of the handler may take.")
    ] = None,
    lifespan: Lifespan = None,
    heartbeat: Beat = 5.0,
    wait: Patience = 10.0,
    at_eof: Eof = False,
    log_level: Level = "info",
    log_format: Form = LogFormat.TEXT,
) -> None:
    """Run a consumer, or all of a module in one process, until SIGTERM.

    Handlers are imported and called with messages. The view worker_status counts them. One that cannot
    continue does not stop the others: it is logged, tried again, and `mqpg status` says so.

    Exit status 4: the schema is too new for this release, from the start or since a migration.
    Upgrade mqpg; a restart cannot help.
    """
    # SQLAlchemy comes with them, which a worker of most roles does not need.
    from mqpg.application import find_consumers, load

    from . import consume as runner

    configure("consumer", log_level, log_format)
    stop = _stop_event(at_eof)
    chosen: dict[str, Any] = {
        "consumer": consumer,
        "queues": runner.parse_queues(queues) if queues is not None else None,
        "max_messages": max_messages,
        "concurrency": concurrency,
        "timeout": timeout,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    found = {target: one.with_options(**given) for target, one in find_consumers(handlers).items()}
    broker, shared = locate.resolve(dsn), load(lifespan) if lifespan else None
    if ":" not in handlers:
        runner.run_all(found, broker, stop, heartbeat=heartbeat, patience=wait, lifespan=shared)
    else:
        with runner.process(shared) if shared else nullcontext(asyncio.run) as run_async:
            runner.run(found[handlers], handlers, broker, stop, heartbeat=heartbeat, patience=wait, run_async=run_async)


def _ask_health(dsn: str | None, roles: Sequence[str]) -> None:
    """Print which workers of this host are silent or fail, or that the disk is full, and exit with 1; or print ok."""
    source, host = Source(dsn, "mqpg worker --health", 1), socket.gethostname()
    try:
        silent = silent_roles(source.rows, host, roles)
        failing = full_disk(source.rows) + failing_roles(source.rows, host, roles)
    finally:
        source.close()
    if silent:
        failing.insert(0, f"no heartbeat of {', '.join(silent)} on {host} within 30 s")
    if failing:
        typer.echo("\n".join(map(printable, failing)), err=True)
        raise typer.Exit(1)
    typer.echo("ok")


def _serving(metrics: str | None, dsn: str) -> AbstractContextManager[object]:
    """Serve metrics while the block runs, if there is an address."""
    if metrics is None:
        return nullcontext()
    from mqpg.metrics.server import serving  # needs the extra

    return serving(metrics, Source(dsn, "mqpg metrics"))


def _supervise(options: Options, at_eof: bool, log_as: Callable[[str], None], metrics: str | None) -> None:
    """Run all roles, and what serves metrics, as child processes."""
    stop = SignalWaiter(at_eof)
    first = patiently(lambda: connect(options.dsn, "supervisor"), stop, options.patience)
    if first is not None:
        first.close()
    patient = replace(options, patience=60.0)

    def work(role: str, stop: threading.Event) -> None:
        log_as(role)
        worker_of(role)(patient, stop).run()

    def serve(stop: threading.Event) -> None:
        log_as("metrics")
        with _serving(metrics, options.dsn):
            stop.wait()

    for role in ROLES:
        worker_of(role)  # loaded here, it is shared
    tasks: dict[str, Task] = {role: partial(work, role) for role in ROLES}
    hopeless = dict.fromkeys(ROLES, frozenset({EXIT_TOO_OLD}))
    if metrics is not None:
        tasks["metrics"], hopeless["metrics"] = serve, frozenset({_EXIT_USAGE})
    if status := Supervisor(tasks, stop, hopeless).run():
        raise typer.Exit(status)


def _stop_event(at_eof: bool) -> threading.Event:
    """Return the event that ends this process."""
    stop = threading.Event()
    stop_on_signals(stop)
    if at_eof:
        stop_on_eof(stop)
    return stop
