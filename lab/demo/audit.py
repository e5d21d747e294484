"""The Spark audit of the demo's three databases: `mqpg audit` in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mqpg.audit.faults import Fault
from mqpg.audit.process import audit_in_process, without_password

from .fleet import DemoError, environment
from .names import CONSUMER_GROUP, PRODUCER_GROUP
from .result import Audit
from .servers import Databases

__all__ = ["run_audit"]


def run_audit(databases: Databases, page: Path | None = None, faults: Sequence[Fault] = ()) -> Audit:
    """Audit a drained run and return the verdict.

    Args:
        databases: The three databases.
        page: Where the audit's HTML page is written. None means nowhere.
        faults: The kills, which the page shows.

    Raises:
        DemoError: The audit itself failed, for example because Java or the JDBC jar is missing.
    """
    arguments = [
        *("--ledger", f"{PRODUCER_GROUP}={without_password(databases.airline)}"),
        *("--applied", f"{CONSUMER_GROUP}={without_password(databases.board)}"),
        "--drained",
    ]
    done = audit_in_process(databases.broker, arguments, page=page, faults=faults, environment=environment({}))
    if done.report is None:
        raise DemoError(f"the audit failed with status {done.status}: {done.words}")
    report = done.report
    anomalies = {kind: count for kind, count in report["anomalies"]["by_kind"].items() if count}
    return Audit(report["verdict"], anomalies, report)
