"""`make fuzz`: CALLS calls of the SQL functions, and a tenth as many of the client and the commands.

SEED repeats a run, and MINUTES limits the calls of SQL to that time.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

import mqpg
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from tests.support.broker import Broker

from .client import ClientFuzzer
from .command import CommandFuzzer
from .sql import SqlFuzzer
from .values import Report


def main() -> int:
    """Run, and print the result. 1 if a call ended as none may."""
    calls, seed = int(os.environ.get("CALLS", "100000")), int(os.environ.get("SEED") or random.getrandbits(32))
    minutes = float(os.environ["MINUTES"]) if os.environ.get("MINUTES") else None
    began = time.monotonic()
    with EmbeddedServer() as server:
        for_sql, for_client, for_commands = (server.create_database(name) for name in ("sql", "client", "commands"))
        for dsn in (for_sql, for_client, for_commands):
            migrate.upgrade(dsn)
        broker = Broker(for_sql)
        fuzz = SqlFuzzer(broker, seed)
        reports = {"sql": fuzz.run(calls, minutes)}
        fuzz.require_whole()
        broker.close()
        with mqpg.connect(for_client) as mq:
            reports["client"] = ClientFuzzer(mq, seed).run(calls // 10, minutes and minutes / 4)
        reports["commands"] = CommandFuzzer(for_commands, seed).run(calls // 100, minutes and minutes / 6)
    ok = not reports["sql"].never and not any(report.faults for report in reports.values())
    result = {
        "ok": ok,
        "seed": seed,
        "seconds": round(time.monotonic() - began),
        "postgresql": fuzz.version,
        **{part: _figures(report) for part, report in reports.items()},
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))
    return 0 if ok else 1


def _figures(report: Report) -> dict[str, Any]:
    """The figures of one part. Of each fault, how often it came, and its first example."""
    return {
        "calls": report.calls,
        "called": len(report.called),
        "outcomes": dict(sorted(report.outcomes.items())),
        "succeeded": dict(sorted(report.succeeded.items())),
        "never": report.never,
        "slowest": report.slowest,
        "faults": {what: [len(found), found[0]] for what, found in report.faults.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
