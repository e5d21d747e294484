"""Throughput of 1, 2 and 4 brokers on one machine, end to end.

    python -m lab.bench.brokers

Each broker is a server of its own with its appender. Four producers send hundreds, and four
consumers receive up to a thousand, spread over the brokers. The rounds are interleaved. It prints
one JSON object.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from statistics import median

from mqpg.embedded import EmbeddedServer

from .cells import Cell, Kind
from .client import connected
from .clients import Clients, Job, Role
from .report import spread
from .server import SETTINGS, Server
from .sides import SIDES

__all__ = ["main"]

_BROKERS = (1, 2, 4)
_CLIENTS = 4  # producers, and as many consumers
_ROUNDS = 3
_CELL = Cell("brokers", "", Kind.E2E, _CLIENTS, 100, 6, receive=1000)


def _measure(servers: list[Server], pool: Clients) -> float:
    """Messages per second that arrive, of all brokers together."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(server.database()) for server in servers]
        for dsn in brokers:
            with connected(dsn) as link:
                SIDES["mqpg"].set_up(link, _CELL, 0)
        jobs = [
            Job("mqpg", role, _CELL, index, brokers[index % len(brokers)], 2.0)
            for role in (Role.PRODUCE, Role.CONSUME)
            for index in range(_CLIENTS)
        ]
        jobs += [Job("mqpg", Role.BACKGROUND, _CELL, 0, dsn) for dsn in brokers]
        return sum(one.count for one in pool.run(jobs) if one.role is Role.CONSUME) / _CELL.seconds


def main() -> None:
    """Start the servers, measure, and print."""
    rates: dict[int, list[float]] = {number: [] for number in _BROKERS}
    settings = SETTINGS | {"max_wal_size": "2GB", "shared_buffers": "256MB"}
    with ExitStack() as stack:
        embedded = [stack.enter_context(EmbeddedServer(settings=settings)) for _ in range(max(_BROKERS))]
        servers = [stack.enter_context(Server(one.dsn(), ["mqpg"])) for one in embedded]
        pool = stack.enter_context(Clients(2 * _CLIENTS + max(_BROKERS)))
        for round_no in range(1, _ROUNDS + 1):
            for number in _BROKERS:
                rates[number].append(_measure(servers[:number], pool))
                print(f"round {round_no}  {number} brokers  {rates[number][-1]:>12,.0f} /s", file=sys.stderr)
        version = servers[0].scalar("show server_version")
    figures = {
        str(number): {
            "median": round(median(found)),
            "spread": round(spread(found), 3),
            "ratio": round(median(found) / median(rates[1]), 2),
        }
        for number, found in rates.items()
    }
    print(json.dumps({"PostgreSQL": version, "clients": 2 * _CLIENTS, "brokers": figures}))


if __name__ == "__main__":
    main()
