"""Throughput of 1, 2 and 4 brokers on one machine, end to end.

    python tools/bench_brokers.py

Each broker is a server of its own with its appender. Four producers send hundreds, and four
consumers receive up to a thousand, spread over the brokers. The rounds are interleaved. It prints
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from statistics import median

from lab.bench.cells import Cell, Kind
from lab.bench.crew import Crew
from lab.bench.jobs import Job, Role
from lab.bench.link import Link
from lab.bench.report import spread
from lab.bench.server import Server
from lab.bench.sides import SIDES
from mqpg.embedded import EmbeddedServer

BROKERS = (1, 2, 4)
CLIENTS = 4  # producers, and as many consumers
SETTINGS = {"max_wal_size": "2GB", "checkpoint_timeout": "30min", "autovacuum_naptime": "5s", "shared_buffers": "256MB"}


def measure(servers: list[Server], crew: Crew, cell: Cell) -> float:
    """Messages per second that arrive, of all brokers together."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(server.database()) for server in servers]
        for dsn in brokers:
            link = Link(dsn)
            SIDES["mqpg"].set_up(link, cell, 0)
            link.close()
        jobs = [
            Job("mqpg", role, cell, index, brokers[index % len(brokers)], 2.0)
            for role in (Role.PRODUCE, Role.CONSUME)
            for index in range(CLIENTS)
        ]
        jobs += [Job("mqpg", Role.BACKGROUND, cell, 0, dsn) for dsn in brokers]
        results = crew.run(jobs)
    return sum(one.count for one in results if one.role is Role.CONSUME) / cell.seconds


def main() -> None:
    """Start the servers, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    cell = Cell("brokers", "", Kind.E2E, CLIENTS, 100, options.seconds, receive=1000)
    rates: dict[int, list[float]] = {number: [] for number in BROKERS}
    with ExitStack() as stack:
        embedded = [stack.enter_context(EmbeddedServer(settings=SETTINGS)) for _ in range(max(BROKERS))]
        servers = [stack.enter_context(Server(one.dsn(), ["mqpg"])) for one in embedded]
        crew = stack.enter_context(Crew(2 * CLIENTS + max(BROKERS)))
        for round_no in range(1, options.rounds + 1):
            for number in BROKERS:
                rates[number].append(measure(servers[:number], crew, cell))
                print(f"round {round_no}  {number} brokers  {rates[number][-1]:>12,.0f} /s", file=sys.stderr)
        version = servers[0].scalar("show server_version")
    one = median(rates[1])
    figures = {
        str(number): {
            "median": round(median(found)),
            "spread": round(spread(found), 3),
            "ratio": round(median(found) / one, 2),
        }
        for number, found in rates.items()
    }
    print(json.dumps({"PostgreSQL": version, "clients": 2 * CLIENTS, "brokers": figures}))


if __name__ == "__main__":
    main()
