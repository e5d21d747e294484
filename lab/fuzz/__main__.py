"""`make fuzz`: CALLS calls of the SQL functions. SEED repeats a run."""

from __future__ import annotations

import json
import os
import random
import sys
import time

from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from tests.support.broker import Broker

from .sql import SqlFuzzer


def main() -> int:
    """Run, and print the result. 1 if a call ended as none may."""
    calls, seed = int(os.environ.get("CALLS", "100000")), int(os.environ.get("SEED") or random.getrandbits(32))
    began = time.monotonic()
    with EmbeddedServer() as server:
        dsn = server.create_database("fuzz")
        migrate.upgrade(dsn)
        broker = Broker(dsn)
        fuzz = SqlFuzzer(broker, seed)
        report = fuzz.run(calls)
        fuzz.require_whole()
        broker.close()
    ok = not report.never and not report.faults
    result = {
        "ok": ok,
        "seed": seed,
        "seconds": round(time.monotonic() - began),
        "postgresql": fuzz.version,
        "calls": report.called.total(),
        "called": len(report.called),
        "outcomes": dict(sorted(report.outcomes.items())),
        "succeeded": dict(sorted(report.succeeded.items())),
        "never": report.never,
        "faults": {what: [len(found), found[0]] for what, found in report.faults.items()},
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
