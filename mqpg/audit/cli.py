"""`mqpg audit`: prove from the tables what happened to every message."""

from __future__ import annotations

import json as json_module
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mqpg.audit.options import AuditOptions
from mqpg.audit.verdict import EXIT_STATUS
from mqpg.cli.failures import missing_extra
from mqpg.cli.options import Dsn, Json, print_json, say, warn_of_password
from mqpg.cli.progress import progress
from mqpg.values.errors import ConfigurationError, ConnectionFailed, Error, SchemaError

from .capture import captured_stderr

if TYPE_CHECKING:
    from mqpg.audit.faults import Fault
    from mqpg.audit.report import Report
    from mqpg.audit.sql.follow import Audited

__all__ = ["audit"]

_log = logging.getLogger(__name__)

_UNKNOWN, _UNREACHABLE = 2, 3
_ENGINES = "mqpg.audit_engines"  # entry points: (options, threads, memory) -> report
_INTERVAL = 30.0
_OR_SQL = "or use --engine sql, which needs neither Spark nor Java"
# What the JVM and Spark say when the heap is too small.
_NO_MEMORY = ("OutOfMemoryError", "Could not allocate memory", "must be at least", "Too small initial heap")


def audit(
    dsn: Dsn = None,
    ledger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP=URL",
            help="The ledger or outbox of a producer group. May be repeated, for one group too.",
            show_default=False,
            callback=warn_of_password,
        ),
    ] = None,
    applied: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP=URL",
            help="The database with a consumer group's journal. May be repeated, for one group too.",
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
    engine: Annotated[
        Literal["spark", "sql"],
        typer.Option(
            help="What computes the audit: sql (plain SQL in a session at the broker, which may create temporary "
            "tables), or spark (needs Java; for standbys and large brokers). Both give the same verdict."
        ),
    ] = "sql",
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Audit only what is new since the last valid audit with this file, and compare fingerprints of the "
            "rest. Everything is audited if the file does not exist yet, or if something has changed. Needs "
            "--engine sql.",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Audit again and again until SIGINT or SIGTERM, with one line for each audit. The exit status is that "
            "of the last one. Needs --engine sql.",
        ),
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="With --follow: seconds between two audits. Default: 30.",
            min=0.1,
            metavar="SECONDS",
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
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The JVM's heap, such as 4g. Default: a quarter of the machine's memory, 1 GiB to 2.5 GiB; "
            "1 GiB for a small audit.",
            show_default=False,
        ),
    ] = None,
    amount: Annotated[
        str | None,
        typer.Option(
            metavar="JSONPATH",
            help="Also sum up this number in the payloads of the messages that anomalies name, such as $.total. Needs "
            "the owner of the schema mqpg.",
            show_default=False,
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Also add a row for each anomaly to this table at the broker, [SCHEMA.]TABLE. It is created if there "
            "is none.",
            show_default=False,
        ),
    ] = None,
    since_report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also say what has changed since the report that --json wrote to this file.",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the report as one HTML page.", show_default=False, dir_okay=False
        ),
    ] = None,
    faults: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Faults that were injected meanwhile, for the HTML page: one JSON object in each line, with at, what, "
            "target and perhaps recovered_at.",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Prove from the tables of all databases what happened to every message (Spark or SQL).

    Each database is read at one snapshot.

    Exit status: 0 valid, 1 invalid, 2 unknown, wrong usage or an audit that could not be finished,
    3 no connection or a schema that is missing, too old or too new.
    """
    if interval is not None and not follow:
        raise typer.Exit(_fail("--interval needs --follow, because a single audit has no next one", _UNKNOWN))
    status = _guarded(
        lambda: _audit(
            AuditOptions(
                dsn=dsn,
                ledgers=_pairs("--ledger", ledger),
                applied=_pairs("--applied", applied),
                topics=tuple(topic or ()),
                groups=tuple(group or ()),
                drained=drained,
                slack=timedelta(seconds=slack),
                clock_tolerance=clock_tolerance,
                ledger_keep=timedelta(hours=ledger_keep),
                amount=amount,
                into=into,
            ),
            _Run(engine, state, (interval or _INTERVAL) if follow else None, local_threads, memory),
            _Output(json, html, faults, since_report),
        )
    )
    raise typer.Exit(status)


@dataclass(frozen=True, slots=True)
class _Run:
    """How an audit is computed: the options of the command that are no options of the audit."""

    engine: Literal["spark", "sql"]
    state: Path | None
    interval: float | None
    threads: int | None
    memory: str | None

    def require_possible(self) -> None:
        """Require options that go together."""
        incremental = self.state is not None or self.interval is not None
        if incremental and self.engine != "sql":
            raise ConfigurationError(
                "--state and --follow need --engine sql, because the Spark engine audits everything each time"
            )


def _guarded(run: Callable[[], int]) -> int:
    """Run an audit and return its exit status. Status 1 always means a proven fault."""
    with captured_stderr() as captured:
        try:
            return run()
        except (ConnectionFailed, SchemaError) as error:
            return _fail(str(error), _UNREACHABLE)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            captured.seek(0)
            written = captured.read().decode(errors="replace")
            for line in written.splitlines():
                _log.info("%s", line)
            _log.debug("the audit failed", exc_info=error)
            return _fail(_explained(error, written), _UNKNOWN)


def _explained(error: BaseException, written: str) -> str:
    """Say in one line why an audit was not finished. `written` is what the JVM wrote to stderr."""
    if isinstance(error, Error):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (explanation := missing_extra(error)):
        return explanation
    if isinstance(error, KeyboardInterrupt):
        return "the audit was interrupted, so there is no verdict"
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        _forget_output()
    if isinstance(error, MemoryError) or any(sign in f"{error} {written}" for sign in _NO_MEMORY):
        return "the audit ran out of memory, so there is no verdict"
    return f"the audit was not finished, so there is no verdict ({_cause(error)})"


def _cause(error: BaseException) -> str:
    """Return what went wrong first, without stack traces, also of an error inside of the JVM."""
    lines = str(error).strip().splitlines() or [""]
    causes = [line for line in lines if line.startswith((": ", "Caused by: "))]
    text = causes[-1].removeprefix("Caused by").removeprefix(": ") if causes else f"{type(error).__name__}: {lines[0]}"
    return text[:300].rstrip(": ")


def _forget_output() -> None:
    """Keep Python from complaining at its exit about output that could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _audit(options: AuditOptions, run: _Run, output: _Output) -> int:
    run.require_possible()
    output.prepare()
    if run.interval is not None:
        return _follow(options, run.state, run.interval, output)
    with progress(f"audit by {run.engine}"):
        report = _run_sql(options, run.state) if run.engine == "sql" else _run_engine(run, options)
    output.show(report)
    sys.stdout.flush()
    return EXIT_STATUS[report.verdict]


class _Output:
    """Where the report goes."""

    def __init__(self, as_json: bool, html: Path | None, faults: Path | None, since: Path | None) -> None:
        self._as_json, self._html, self._faults_file, self._since = as_json, html, faults, since
        self._faults: list[Fault] = []
        self._before: dict[str, Any] | None = None

    def prepare(self) -> None:
        """Refuse files that cannot be used, before the audit begins."""
        from mqpg.audit.changes import read_report
        from mqpg.audit.faults import read_faults

        if self._faults_file is not None:
            if self._html is None:
                raise ConfigurationError("--faults is shown on the page of --html FILE: give both")
            self._faults = read_faults(self._faults_file)
        if self._since is not None:
            self._before = read_report(self._since)
        if self._html is not None:
            try:
                self._html.touch()
            except OSError as error:
                raise ConfigurationError(f"--html: {self._html} cannot be written: {error}") from error

    def require_many(self) -> None:
        """Refuse what shows a single audit."""
        for option, given in (("--html", self._html), ("--since-report", self._since)):
            if given is not None:
                raise ConfigurationError(f"{option} shows one audit, so it cannot be used with --follow")

    def show_line(self, audited: Audited) -> None:
        """Print one of many audits on one line."""
        from mqpg.audit.report import as_json

        report = audited.report
        if self._as_json:
            found = {"verdict": str(audited.verdict), "reasons": [audited.error]}
            typer.echo(json_module.dumps(found if report is None else json_module.loads(as_json(report))))
        elif report is None:
            say(f"{audited.verdict}: not finished, {audited.error}")
        else:
            run, found = report.run, report.run["incremental"]
            text = f"{run['at']:%Y-%m-%dT%H:%M:%SZ} {report.verdict}: "
            text += "".join(f"{reason}; " for reason in report.reasons)
            text += f"{run['rows']:,} rows in {run['seconds']:.1f} s, "
            text += f"{found['judged'].get('messages', 0):,} messages judged, {found['open']:,} open"
            again = found["judged_again"]
            say(text + (f"; everything was judged again, because {again}" if again else ""))
        sys.stdout.flush()

    def show(self, report: Report) -> None:
        """Print the report, and write the HTML page."""
        from rich.console import Console

        from mqpg.audit.changes import changes_since
        from mqpg.audit.html import as_html
        from mqpg.audit.page import print_page
        from mqpg.audit.report import as_json

        if self._before is not None:
            report.changes = changes_since(self._before, report)
        if self._html is not None:
            self._html.write_text(as_html(report, self._faults), encoding="utf-8")
        if self._as_json:
            print_json(json_module.loads(as_json(report)))
        else:
            print_page(report, Console())


def _run_sql(options: AuditOptions, state: Path | None) -> Report:
    from mqpg.audit.sql.engine import run_audit
    from mqpg.audit.sql.incremental import audit_with_state

    return run_audit(options) if state is None else audit_with_state(options, state)


def _follow(options: AuditOptions, state: Path | None, interval: float, output: _Output) -> int:
    import threading

    from mqpg.audit.sql.follow import follow
    from mqpg.cli.stop_signals import stop_on_signals

    output.require_many()
    stop = threading.Event()
    stop_on_signals(stop)
    last = follow(options, state, interval, stop, output.show_line, lambda why: say(f"mqpg: {why}", err=True))
    return EXIT_STATUS[last]


def _run_engine(run: _Run, options: AuditOptions) -> Report:
    """Run an engine that another part of mqpg brings by an entry point."""
    entry = next(iter(entry_points(group=_ENGINES, name=run.engine)), None)
    if entry is None:
        raise ConfigurationError(f"the engine {run.engine} is not installed, {_OR_SQL}")
    try:
        engine: Callable[[AuditOptions, int | None, str | None], Report] = entry.load()
        return engine(options, run.threads, run.memory)
    except ModuleNotFoundError as error:
        if (explanation := missing_extra(error)) is None:
            raise
        raise ConfigurationError(f"{explanation}, {_OR_SQL}") from error


def _pairs(option: str, given: list[str] | None) -> dict[str, list[str]]:
    pairs: dict[str, list[str]] = {}
    for text in given or []:
        name, equals, url = text.partition("=")
        if not (name and equals and url) or "://" in name:
            raise ConfigurationError(f"{option} must be GROUP=URL, not {text.partition('://')[0]!r}")
        if url in pairs.setdefault(name, []):
            raise ConfigurationError(f"{option} names group {name!r} with one URL twice")
        pairs[name].append(url)
    return pairs


def _fail(why: str, status: int) -> int:
    say(f"mqpg: {' '.join(why.split())}", err=True)
    return status
