"""The options of `mqpg worker` and `mqpg consume`. What the commands do is in `start`."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.cli.all_day import start
from mqpg.cli.options import Dsn, warn_of_password

from .call_timeout import CALL_TIMEOUT
from .logs import LogFormat

__all__ = ["consume", "worker"]

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
        max=3600,
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
# Who sends none for 30 seconds counts as gone.
Beat = Annotated[float, typer.Option("--heartbeat", min=0.05, max=15, help="Seconds between two heartbeats.")]
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
    ledgers: Ledgers = None,
    interval: Interval = None,
    max_messages: AppendSize = 100_000,
    check_timeout: CheckTime = 30.0,
    call_timeout: CallTime = CALL_TIMEOUT,
    adopt_promoted: AdoptPromoted = False,
    metrics: Metrics = None,
    health: AskHealth = False,
    heartbeat: Beat = 5.0,
    patience: Patience = 10.0,
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
    start("mqpg.workers.start:work", **locals() | {"ledgers": ledgers or []})


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
    patience: Patience = 10.0,
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
    start("mqpg.workers.start:consume", **locals())
