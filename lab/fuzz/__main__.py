"""`make fuzz`: CALLS calls of the SQL functions, and a tenth as many of the client and the commands.

SEED repeats a run, and MINUTES limits the calls of SQL to that time. The server is that of
MQPG_TEST_DSN, else one that this program starts.
"""

from __future__ import annotations

import json
import os
import platform
import random
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

import mqpg
from lab.fuzz.client import ClientFuzzer
from lab.fuzz.command import CommandFuzzer
from lab.fuzz.sql import SqlFuzzer
from mqpg import migrate
from mqpg.embedded.server import EmbeddedServer
from tests.support.broker import Broker


def main() -> int:
    """Run, and print the result. 1 where a call ended as none may."""
    calls, seed = int(os.environ.get("CALLS", "100000")), int(os.environ.get("SEED") or random.getrandbits(32))
    minutes = float(os.environ["MINUTES"]) if os.environ.get("MINUTES") else None
    began = time.monotonic()
    with ExitStack() as stack:
        databases = [_database(stack, f"fuzz_{os.getpid()}_{part}") for part in ("sql", "client", "command")]
        broker = Broker(databases[0])
        stack.callback(broker.close)
        fuzz = SqlFuzzer(broker, seed)
        version = fuzz.version
        report = fuzz.run(calls, minutes)
        fuzz.require_whole()
        mq = stack.enter_context(mqpg.connect(databases[1]))
        client = ClientFuzzer(mq, seed).run(calls // 10, minutes and minutes / 4)
        command = CommandFuzzer(databases[2], seed).run(calls // 100, minutes and minutes / 6)
    figures: dict[str, Any] = {
        "seconds": round(time.monotonic() - began),
        "postgresql": f"{version // 10000}.{version % 10000}",
        "sql": {
            "calls": report.calls,
            "functions": len(report.called),
            "ok": report.states["ok"],
            "states": dict(sorted(report.states.items())),
            "succeeded": dict(sorted(report.succeeded.items())),
            "never": report.never,
            "slowest_seconds": round(report.slowest[0], 2),
            "slowest_call": report.slowest[1],
            "faults": _firsts(report.faults),
        },
        "client": {
            "calls": client.calls,
            "methods": len(client.succeeded),
            "outcomes": dict(sorted(client.outcomes.items())),
            "faults": _firsts(client.faults),
        },
        "commands": {
            "calls": command.calls,
            "commands": command.commands,
            "statuses": dict(command.statuses),
            "faults": _firsts(command.faults),
        },
    }
    ok = not report.never and not any(figures[part]["faults"] for part in ("sql", "client", "commands"))
    run = {
        "kind": "fuzz",
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}",
        "command": f"make fuzz CALLS={calls} SEED={seed}" + (f" MINUTES={minutes:g}" if minutes else ""),
        "seed": seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "conditions": f"load {os.getloadavg()[0]:.0f} at the end",
        "ok": ok,
        "figures": figures,
        "notes": "",
    }
    print(json.dumps(run, indent=2, ensure_ascii=False))
    return 0 if ok else 1


def _firsts(faults: dict[str, list[str]]) -> dict[str, list[Any]]:
    """How often each fault came, and its first example."""
    return {what: [len(found), found[0]] for what, found in faults.items()}


def _database(stack: ExitStack, name: str) -> str:
    given = os.environ.get("MQPG_TEST_DSN")
    if given is None:
        server = stack.enter_context(EmbeddedServer())
        dsn = server.create_database(name)
    else:
        with psycopg.connect(given, autocommit=True) as conn:
            conn.execute(f'create database "{name}" template template0'.encode())
        dsn = make_conninfo(given, dbname=name)
    migrate.upgrade(dsn)
    return dsn


if __name__ == "__main__":
    sys.exit(main())
