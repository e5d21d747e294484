"""`mqpg audit` of each broker, by each engine, in processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mqpg.audit.faults import Fault
from mqpg.audit.process import audit_in_process, without_password
from mqpg.connection.dsn import to_sqlalchemy

from .cluster import Cluster
from .names import C1, FRESH, c2
from .options import Options
from .schedule import CONSUMERS

__all__ = ["Audit", "run_audits"]

_AT_ONCE = 2  # audits; one of Spark waits for its JVM much of the time


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit.

    Attributes:
        broker: The name of the broker.
        engine: The engine.
        scope: What was judged: groups with a journal and drained, or everything.
        status: The exit status of the command.
        seconds: How long it took.
        report: The report. It has a `verdict` of "unknown" where there was none.
    """

    broker: str
    engine: str
    scope: str
    status: int
    seconds: float
    report: dict[str, Any]


def run_audits(cluster: Cluster, options: Options, faults: Sequence[Fault]) -> list[Audit]:
    """Audit both brokers with every engine, drained; and once with all groups, by SQL.

    A drained audit judges every group in its scope, and C3 keeps no journal. The audit of all
    groups is therefore not a drained one. It reads the cursors of C3, too.
    """
    work: list[Callable[[], Audit]] = []
    journaled = [arg for name in (C1, FRESH, *map(c2, CONSUMERS)) for arg in ("--group", name)]
    for number, dsn in enumerate(cluster.brokers, 1):
        for engine in options.engines:
            page = _page(options, number, engine)
            drained = ["--drained", *journaled]
            work.append(partial(_audit, cluster, number, dsn, engine, "drained", drained, page, faults))
        work.append(partial(_audit, cluster, number, dsn, "sql", "all groups", [], None, faults))
    with ThreadPoolExecutor(_AT_ONCE, "audit") as pool:
        return [done.result() for done in [pool.submit(one) for one in work]]


def _page(options: Options, broker: int, engine: str) -> Path | None:
    """Return where the page goes: broker-1 as it was asked for, broker-2 beside it."""
    if options.page is None or engine != options.engines[-1]:
        return None
    return options.page if broker == 1 else options.page.with_stem(f"{options.page.stem}-broker-{broker}")


def _audit(
    cluster: Cluster,
    number: int,
    dsn: str,
    engine: str,
    scope: str,
    arguments: list[str],
    page: Path | None,
    faults: Sequence[Fault],
) -> Audit:
    arguments = ["--engine", engine, *arguments]
    for name, store in cluster.stores.items():
        arguments += ["--ledger", f"{name}={without_password(store)}"]
    for consumer, sink in cluster.sinks.items():
        arguments += ["--applied", f"{c2(int(consumer))}={without_password(sink)}"]
    began = time.monotonic()
    # The other databases are on another server than the broker.
    password = {"PGPASSWORD": to_sqlalchemy(cluster.judge).password or ""}
    done = audit_in_process(dsn, arguments, page=page, faults=faults, environment=password)
    report = done.report or {"verdict": "unknown", "reasons": [done.words]}
    return Audit(f"broker-{number}", engine, scope, done.status, time.monotonic() - began, report)
