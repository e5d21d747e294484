"""Processor time that the server spends on a client's calls: mqpg, pgmq and bare SQL.

    python -m lab.bench.call_cost

The clock of a busy machine says little. This counts the time that the session's server process ran
(schedstat of Linux). One client of each side takes its step in turn, in a random order. Each call
is a transaction of its own. It prints one JSON object; times are microseconds, medians.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from mqpg.embedded import EmbeddedServer

from .cells import Cell, Kind
from .client import Link
from .server import Server
from .sides import SIDES

__all__ = ["STEPS", "measure_all"]

STEPS = {
    "receive and ack of 100, sent in thousands": (Kind.RECEIVE, 100, 1000, 400),
    "receive and ack of 100, sent one by one": (Kind.RECEIVE, 100, 1, 300),
    "receive and ack of 1000, sent in thousands": (Kind.RECEIVE, 1000, 1000, 100),
    "half and commit of 100": (Kind.HALF, 100, 0, 200),
}
_SIDES = ("mqpg", "pgmq", "bare")
_WARM_UP = 15
_ONE_BY_ONE = """
do $$ begin
    for i in 1..{count} loop perform mqpg.send('bench', json_build_object('n', i, 'text', repeat('x', 190))); end loop;
end $$"""


class _Timed(Link):
    """A connection that adds up the server's processor time of each statement, by its name."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._stat = Path(f"/proc/{self.scalar('select pg_backend_pid()')}/schedstat")
        self.spent: dict[str, list[float]] = defaultdict(list)

    def run(self, name: bytes, params: Sequence[bytes] = ()) -> Any:
        """Execute a prepared statement."""
        before = self._ran()
        result = super().run(name, params)
        self.spent[name.decode()].append(self._ran() - before)
        return result

    def _ran(self) -> float:
        return int(self._stat.read_text().split()[0]) / 1000


def measure_all(dsn: str) -> dict[str, Any]:
    """Measure all steps on a server of this machine."""
    with Server(dsn, _SIDES) as server:
        figures: dict[str, Any] = {"PostgreSQL": server.scalar("show server_version")}
        for title, arguments in STEPS.items():
            figures[title] = _measure(server, *arguments)
    return figures


def _measure(server: Server, kind: Kind, batch: int, sent: int, steps: int) -> dict[str, dict[str, int]]:
    """The median processor time of each statement of each side."""
    cell, found = Cell("calls", "", kind, 1, batch, 3), {}
    with ExitStack() as stack:
        links = {name: _Timed(stack.enter_context(server.database())) for name in _SIDES}
        clients = {}
        for name, link in links.items():
            stack.callback(link.close)
            _fill(name, link, cell, (steps + _WARM_UP) * batch if sent else 0, sent)
            side = SIDES[name]
            clients[name] = side.producer(link, cell, 0) if kind is Kind.HALF else side.consumer(link, cell, 0).step
            link.spent.clear()
        order = list(links)
        for _ in range(steps + _WARM_UP):
            random.shuffle(order)
            for name in order:
                clients[name]()
        for name, link in links.items():
            medians = {call: round(median(spent[_WARM_UP:])) for call, spent in link.spent.items()}
            found[name] = medians | {"sum": sum(medians.values())}
    return found


def _fill(side: str, link: Link, cell: Cell, backlog: int, sent: int) -> None:
    if side == "mqpg" and sent == 1:
        SIDES[side].set_up(link, cell, 0)
        link.execute(_ONE_BY_ONE.format(count=backlog))
        SIDES[side].stored(link, cell)  # it appends them
    else:
        SIDES[side].set_up(link, cell, (backlog + 999) // 1000 * 1000)
    link.execute("analyze")


if __name__ == "__main__":
    with EmbeddedServer(settings={"max_wal_size": "8GB", "shared_buffers": "512MB"}) as embedded:
        print(json.dumps(measure_all(embedded.dsn())))
