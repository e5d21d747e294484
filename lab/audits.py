"""`mqpg audit` of what a run has left, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqpg.audit.faults import Fault, write_faults
from mqpg.connection.dsn import to_sqlalchemy

__all__ = ["Audit", "audit", "sqlalchemy_url"]


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit that has ended.

    Attributes:
        scope: What was judged: "drained", or "all groups".
        report: The report. Without one its `verdict` is "unknown", and `reasons` has the end of stderr.
    """

    broker: str
    engine: str
    scope: str
    status: int
    report: Mapping[str, Any] = field(repr=False)
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """valid, invalid or unknown."""
        return str(self.report["verdict"])

    @property
    def anomalies(self) -> dict[str, int]:
        """How many anomalies of each kind were found."""
        return {kind: n for kind, n in self.report.get("anomalies", {}).get("by_kind", {}).items() if n}


def audit(
    dsn: str,
    *,
    ledgers: Sequence[tuple[str, str]],
    applied: Sequence[tuple[str, str]],
    groups: Iterable[str] = (),
    engine: str = "spark",
    drained: bool = True,
    name: str = "broker",
    page: Path | None = None,
    faults: Sequence[Fault] = (),
) -> Audit:
    """Audit a broker.

    Passwords go through the environment, because every user of the machine can read arguments.

    Args:
        ledgers: Producer groups and databases of their ledgers. All of them have the same password.
        groups: The consumer groups to judge; none means all.
    """
    arguments = ["--engine", engine, *(["--drained"] if drained else [])]
    arguments += [word for group in groups for word in ("--group", group)]
    for option, databases in (("--ledger", ledgers), ("--applied", applied)):
        arguments += [word for group, url in databases for word in (option, f"{group}={_without_password(url)}")]
    password = next((to_sqlalchemy(url).password for _, url in (*ledgers, *applied)), to_sqlalchemy(dsn).password)
    began = time.monotonic()
    with tempfile.NamedTemporaryFile(prefix="mqpg-faults-", suffix=".jsonl") as log:
        if page is not None:
            write_faults(Path(log.name), faults)
            arguments += ["--html", str(page), "--faults", log.name]
        done = subprocess.run(
            [sys.executable, "-m", "mqpg", "audit", "--json", *arguments],
            env=os.environ | {"MQPG_DATABASE_URL": dsn} | ({"PGPASSWORD": password} if password else {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"verdict": "unknown", "reasons": [" ".join(done.stderr.split()[-60:])]}
    scope = "drained" if drained else "all groups"
    return Audit(name, engine, scope, done.returncode, report, time.monotonic() - began)


def _without_password(dsn: str) -> str:
    return to_sqlalchemy(dsn)._replace(password=None).render_as_string(hide_password=False)


def sqlalchemy_url(dsn: str) -> str:
    """The URL of a database for SQLAlchemy, with its password."""
    return to_sqlalchemy(dsn).render_as_string(hide_password=False)
