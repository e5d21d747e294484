"""`mqpg audit`: prove from the tables what happened to every message."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.cli.options import Dsn, Json
from mqpg.cli.passwords import warn_of_password
from mqpg.errors import ConfigurationError, ConnectionFailed, Error, SchemaError

__all__ = ["audit"]

_UNKNOWN, _UNREACHABLE = 2, 3


def audit(
    dsn: Dsn = None,
    ledger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP=URL",
            help="The ledger of a producer group. May be repeated.",
            show_default=False,
            callback=warn_of_password,
        ),
    ] = None,
    applied: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP=URL",
            help="The database with a consumer group's journal. May be repeated.",
            show_default=False,
            callback=warn_of_password,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Audit only this topic. May be repeated. Default: all.", show_default=False)
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Audit only this consumer group. May be repeated. Default: all.", show_default=False),
    ] = None,
    drained: Annotated[
        bool, typer.Option("--drained", help="Nothing is running any more, so nothing may be left open.")
    ] = False,
    slack: Annotated[
        float,
        typer.Option(help="Seconds for which a half message may stay undecided after its check-back is due.", min=0),
    ] = 300,
    clock_tolerance: Annotated[
        float | None,
        typer.Option(
            help="Seconds by which the clocks of two servers may differ. Default: 0 on one server, otherwise 5.",
            min=0,
            show_default=False,
        ),
    ] = None,
    ledger_keep: Annotated[
        float, typer.Option(help="Hours after which the rows of a ledger may have been deleted.", min=0)
    ] = 24,
    local_threads: Annotated[
        int | None,
        typer.Option(
            help="Threads of the local Spark session. Default: one for each core, two to four.",
            min=1,
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Prove from the tables of all databases what happened to every message (Spark).

    Each database is read at one snapshot.

    Exit status: 0 valid, 1 invalid, 2 unknown or wrong usage, 3 no connection or a schema that is
    missing, too old or too new.
    """
    try:
        status = _audit(
            dsn,
            _pairs("--ledger", ledger),
            _pairs("--applied", applied),
            topic or [],
            group or [],
            drained,
            slack,
            clock_tolerance,
            ledger_keep,
            local_threads,
            json,
        )
    except (ConnectionFailed, SchemaError) as error:
        status = _fail(error, _UNREACHABLE)
    except Error as error:
        # Status 1 always means a proven fault.
        status = _fail(error, _UNKNOWN)
    raise typer.Exit(status)


def _audit(
    dsn: str | None,
    ledgers: dict[str, str],
    applied: dict[str, str],
    topics: list[str],
    groups: list[str],
    drained: bool,
    slack: float,
    clock_tolerance: float | None,
    ledger_keep: float,
    threads: int | None,
    as_json: bool,
) -> int:
    # Imported here, because `mqpg --help` must not wait for Spark.
    from datetime import timedelta

    from rich.console import Console

    from ..jobs.audit import AuditOptions, run_audit
    from ..jobs.report import as_json as to_json
    from ..jobs.verdict import EXIT_STATUS
    from ..read.session import default_threads
    from .page import print_page

    threads = threads or default_threads()
    options = AuditOptions(
        dsn=dsn,
        ledgers=ledgers,
        applied=applied,
        topics=tuple(topics),
        groups=tuple(groups),
        drained=drained,
        slack=timedelta(seconds=slack),
        clock_tolerance=clock_tolerance,
        ledger_keep=timedelta(hours=ledger_keep),
        partitions=threads,
    )
    report = run_audit(options, threads=threads)
    if as_json:
        typer.echo(to_json(report))
    else:
        print_page(report, Console())
    return EXIT_STATUS[report.verdict]


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or []:
        name, equals, url = text.partition("=")
        if not (name and equals and url) or "://" in name:
            raise ConfigurationError(f"{option} must be GROUP=URL, not {text.partition('://')[0]!r}")
        if name in pairs:
            raise ConfigurationError(f"{option} names group {name!r} twice")
        pairs[name] = url
    return pairs


def _fail(error: Error, status: int) -> int:
    typer.echo(f"mqpg: {' '.join(str(error).split())}", err=True)
    return status
