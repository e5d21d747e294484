"""`mqpg audit` of what a run has left, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqpg.audit.faults import Fault
from mqpg.audit.process import audit_in_process, without_password
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

    Args:
        ledgers: Producer groups and databases of their ledgers. All of them have the same password.
        groups: The consumer groups to judge; none means all.
    """
    arguments = ["--engine", engine, *(["--drained"] if drained else [])]
    arguments += [word for group in groups for word in ("--group", group)]
    for option, databases in (("--ledger", ledgers), ("--applied", applied)):
        arguments += [word for group, url in databases for word in (option, f"{group}={without_password(url)}")]
    password = next((to_sqlalchemy(url).password for _, url in (*ledgers, *applied)), None)
    began = time.monotonic()
    done = audit_in_process(
        dsn, arguments, page=page, faults=faults, environment={"PGPASSWORD": password} if password else {}
    )
    report = done.report or {"verdict": "unknown", "reasons": [done.words]}
    scope = "drained" if drained else "all groups"
    return Audit(name, engine, scope, done.status, report, time.monotonic() - began)


def sqlalchemy_url(dsn: str) -> str:
    """The URL of a database for SQLAlchemy, with its password."""
    return to_sqlalchemy(dsn).render_as_string(hide_password=False)
