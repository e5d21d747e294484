"""`mqpg audit` of each broker, by each engine, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mqpg.audit.faults import Fault, write_faults
from mqpg.dsn import to_sqlalchemy

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
    command = [sys.executable, "-m", "mqpg", "audit", "--engine", engine, "--json", *arguments]
    for name, store in cluster.stores.items():
        command += ["--ledger", f"{name}={_public(store)}"]
    for consumer, sink in cluster.sinks.items():
        command += ["--applied", f"{c2(int(consumer))}={_public(sink)}"]
    began = time.monotonic()
    # The broker's password is in its DSN, and that of the other databases in PGPASSWORD.
    env = {**os.environ, "MQPG_DATABASE_URL": dsn, "PGPASSWORD": to_sqlalchemy(cluster.judge).password or ""}
    with tempfile.NamedTemporaryFile(prefix="mqpg-chaos-faults-", suffix=".jsonl") as log:
        if page is not None:
            write_faults(Path(log.name), faults)
            command += ["--html", str(page), "--faults", log.name]
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"verdict": "unknown", "reasons": [" ".join(done.stderr.split()[-60:])]}
    return Audit(f"broker-{number}", engine, scope, done.returncode, time.monotonic() - began, report)


def _public(dsn: str) -> str:
    """Return a DSN without its password, because every user of the machine can read arguments."""
    return to_sqlalchemy(dsn)._replace(password=None).render_as_string(hide_password=False)
