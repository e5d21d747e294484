"""The Spark audit over the demo's three databases, as `mqpg audit` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from .fleet import DemoError, environment
from .names import CONSUMER_GROUP, PRODUCER_GROUP
from .result import Audit
from .servers import Databases

__all__ = ["run_audit"]


def run_audit(databases: Databases) -> Audit:
    """The verdict on a drained run. Raises DemoError where the audit itself fails (no Java, no JDBC jar)."""
    command = [
        *(sys.executable, "-m", "mqpg", "audit"),
        *("--dsn", databases.broker),
        *("--ledger", f"{PRODUCER_GROUP}={databases.airline_url}"),
        *("--applied", f"{CONSUMER_GROUP}={databases.board_url}"),
        *("--drained", "--json"),
    ]
    done = subprocess.run(
        command, env=environment({}), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        words = " ".join(done.stderr.split()[-60:])
        raise DemoError(f"the audit failed with status {done.returncode}: {words}") from None
    anomalies = {kind: count for kind, count in report["anomalies"].items() if count}
    return Audit(report["verdict"], anomalies, report)
