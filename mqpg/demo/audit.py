"""The Spark audit of the demo's three databases: `mqpg audit` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mqpg.audit.faults import Fault, write_faults
from mqpg.dsn import to_sqlalchemy

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
    # The password goes through the environment, because every user of the machine can read
    # arguments. The three databases are on one server, so there is one password.
    password = to_sqlalchemy(databases.broker).password
    variables = {"MQPG_DATABASE_URL": databases.broker} | ({"PGPASSWORD": password} if password else {})
    command = [
        *(sys.executable, "-m", "mqpg", "audit"),
        *("--ledger", f"{PRODUCER_GROUP}={_public(databases.airline)}"),
        *("--applied", f"{CONSUMER_GROUP}={_public(databases.board)}"),
        *("--drained", "--json"),
    ]
    with tempfile.NamedTemporaryFile(prefix="mqpg-demo-faults-", suffix=".jsonl") as log:
        if page is not None:
            write_faults(Path(log.name), faults)
            command += ["--html", str(page), "--faults", log.name]
        done = subprocess.run(
            command, env=environment(variables), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        words = " ".join(done.stderr.split()[-60:])
        raise DemoError(f"the audit failed with status {done.returncode}: {words}") from None
    anomalies = {kind: count for kind, count in report["anomalies"]["by_kind"].items() if count}
    return Audit(report["verdict"], anomalies, report)


def _public(dsn: str) -> str:
    return to_sqlalchemy(dsn)._replace(password=None).render_as_string(hide_password=False)
