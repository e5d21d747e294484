"""`mqpg reconcile`: find lost commits by set difference, and commit their messages."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mqpg.cli.options import Json, print_rows, warn_of_password
from mqpg.values.errors import ConnectionFailed, Error, SchemaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..jobs.reconcile import ReconcileOptions

__all__ = ["reconcile"]

_CONTRADICTED, _USAGE, _UNREACHABLE = 1, 2, 3
_COLUMNS = ["handle", "message_id", "topic", "key", "state", "outcome"]
_LONGEST_PAUSE = 60.0


def reconcile(
    dsn: Annotated[
        list[str] | None,
        typer.Option(
            "--dsn",
            help="A broker's database. May be repeated. Default: as for the other commands.",
            show_default=False,
            callback=warn_of_password,
        ),
    ] = None,
    ledger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="A ledger's database. May be repeated. Default: the ledger in each broker's own database.",
            show_default=False,
            callback=warn_of_password,
        ),
    ] = None,
    older_than: Annotated[
        float, typer.Option(help="Seconds for which a local transaction is left to its producer.", min=0)
    ] = 60,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what was lost. Commit nothing.")] = False,
    watch: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Repeat at this interval. Wait for databases that do not answer.",
            min=0.1,
            show_default=False,
        ),
    ] = None,
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
    """Find committed local transactions whose message was not committed, and commit it (Spark).

    Several of these commands may run at the same time. Exit status: 0 nothing is left to do,
    1 something is left (--dry-run, or a message that its broker rolled back or lost although its
    transaction committed), 2 wrong usage, 3 no connection.
    """
    from datetime import timedelta

    from ..jobs.reconcile import ReconcileOptions, connect_once
    from ..read.jdbc_jar import find_jdbc_jar
    from ..read.session import default_threads, open_session

    threads = local_threads or default_threads()
    options = ReconcileOptions(
        tuple(dsn or ()), tuple(ledger or ()), timedelta(seconds=older_than), not dry_run, partitions=threads
    )
    try:
        if watch is None:
            # A wrong DSN is reported before a JVM is started.
            connect_once(options)
        with open_session(threads, jar=find_jdbc_jar()) as spark:
            if watch is None:
                status = _once(spark, options, as_json=json)
            else:
                with contextlib.suppress(KeyboardInterrupt):
                    _watch(lambda: _once(spark, options, as_json=json), watch)
                status = 0
    except (ConnectionFailed, SchemaError) as error:
        status = _fail(error, _UNREACHABLE)
    except Error as error:
        status = _fail(error, _USAGE)
    raise typer.Exit(status)


def _once(spark: SparkSession, options: ReconcileOptions, *, as_json: bool) -> int:
    from ..jobs.reconcile import reconcile_in

    hits = reconcile_in(spark, options)
    if hits or as_json:
        print_rows([asdict(hit) for hit in hits], _COLUMNS, as_json=as_json)
    committed = ("committed", "already_committed")
    return 0 if all(hit.outcome in committed for hit in hits) else _CONTRADICTED


def _watch(compare: Callable[[], int], seconds: float) -> None:
    """Compare periodically. While a database does not answer, the pauses become longer."""
    pause = seconds
    while True:
        try:
            compare()
            pause = seconds
        except ConnectionFailed as error:
            _fail(error, _UNREACHABLE)
            pause = min(pause * 2, max(_LONGEST_PAUSE, seconds))
        time.sleep(pause)


def _fail(error: Error, status: int) -> int:
    typer.echo(f"mqpg: {' '.join(str(error).split())}", err=True)
    return status
