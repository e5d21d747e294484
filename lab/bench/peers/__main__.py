"""Measure mqpg beside the Python job queues procrastinate and pgqueuer, for `make bench-peers`.

    python -m lab.bench.peers [--quick]

Each run has a fresh database on one server. The rounds are interleaved: every round runs each cell
on all of its sides in turn. A side is a program in this folder, so that each has a process and an
environment of its own. mqpg's workers run beside its client. A side that fails is named, and the
others continue. It prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from lab import ROOT
from lab.bench.report import spread
from lab.bench.server import SETTINGS
from mqpg.embedded import EmbeddedServer

PEERS = ROOT / ".peers" / "bin" / "python"
ALONE = "mqpg, no batching"
SECONDS = "2.0"  # of a cell that sends
# Jobs of a cell that consumes, and jobs that run at once. procrastinate handles hundreds a second.
COUNT, SLOW_COUNT = ["20000", "8"], ["2000", "8"]

# A side of a cell: the arguments of its program, without the DSN.
Sides = dict[str, list[str]]


def _sends(tasks: int) -> Sides:
    arguments = ["send", str(tasks), SECONDS]
    ours = {"mqpg": [*arguments, "together"], ALONE: [*arguments, "alone"]}
    return ours | {"procrastinate": arguments, "pgqueuer": arguments}


def _halves(tasks: int) -> Sides:
    arguments = ["send", str(tasks), SECONDS]
    return {"mqpg": [*arguments, "half"], ALONE: [*arguments, "half alone"]}


def _consumers(where: str) -> Sides:
    ours = {"mqpg": ["consume", *COUNT, where]}
    return ours | {"procrastinate": ["consume", *SLOW_COUNT], "pgqueuer": ["consume", COUNT[0], "0"]}


# Title, sides, and the least ratio of mqpg to another side.
CELLS: dict[str, tuple[str, Sides, dict[str, float]]] = {
    "send-16": ("send one by one, asyncio, 16 tasks", _sends(16), {ALONE: 4, "procrastinate": 10}),
    "send-100": ("the same, 100 tasks", _sends(100), {ALONE: 10, "procrastinate": 10}),
    "half-16": ("prepare and commit one by one, asyncio, 16 tasks", _halves(16), {ALONE: 2.7}),
    "half-100": ("the same, 100 tasks", _halves(100), {ALONE: 7}),
    "consume-c1": (
        "consumer C1, handler that does nothing, concurrency 8",
        _consumers("broker"),
        {"procrastinate": 3, "pgqueuer": 2},
    ),
    "consume-c3": (
        "consumer C3, handler that does nothing, concurrency 8",
        _consumers("each"),
        {"procrastinate": 3, "pgqueuer": 2},
    ),
    "consume-c3-delivery": ("the same, acknowledged by deliveries", _consumers("delivery"), {"pgqueuer": 2}),
    "consume-c3-batch": ("consumer C3 whose handler takes whole deliveries", _consumers("batch"), {}),
}


def _run(server: EmbeddedServer, side: str, arguments: list[str]) -> float:
    """Run one side of a cell in a fresh database; messages per second."""
    name = side.partition(",")[0]
    action, *rest = arguments
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("drop database if exists mqpg_peers with (force)")
        conn.execute("checkpoint")
    dsn = server.create_database("mqpg_peers")
    _program(name, "install", dsn)
    with _worker(dsn, needed=name == "mqpg"):
        count, seconds = json.loads(_program(name, action, dsn, *rest))
    return float(count / seconds)


def _program(name: str, *arguments: str) -> str:
    python = sys.executable if name == "mqpg" else str(PEERS)
    command = [python, "-m", f"lab.bench.peers.{name}_side", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


@contextmanager
def _worker(dsn: str, *, needed: bool) -> Iterator[None]:
    if not needed:
        yield
        return
    command = [sys.executable, "-m", "mqpg", "worker"]
    process = subprocess.Popen(command, env=os.environ | {"MQPG_DATABASE_URL": dsn}, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def outcome(rates: dict[str, dict[str, list[float]]], versions: dict[str, str], problems: list[str]) -> dict[str, Any]:
    """The figures of all runs: the median of each side, and mqpg's ratio to each other side."""
    cells = []
    for cell, sides in rates.items():
        title, _, bounds = CELLS[cell]
        medians = {side: median(found) for side, found in sides.items()}
        ratios = {side: round(medians["mqpg"] / rate, 2) for side, rate in medians.items() if "mqpg" in medians}
        figures = {
            side: {"median": round(medians[side]), "spread": round(spread(found), 3), "rates": list(map(round, found))}
            for side, found in sides.items()
        }
        missed = [side for side, bound in bounds.items() if ratios.get(side, 0) < bound]
        cells.append({"cell": cell, "title": title, "sides": figures, "ratios": ratios, "missed": missed})
    return {"versions": versions, "cells": cells, "problems": problems}


def _versions(server: EmbeddedServer) -> dict[str, str]:
    names = ("procrastinate", "pgqueuer", "asyncpg")
    ask = f"from importlib.metadata import version as v; print(*map(v, {names!r}))"
    with psycopg.connect(server.dsn()) as conn:
        ours = {"PostgreSQL": str(conn.info.parameter_status("server_version")), "Python": platform.python_version()}
    if not PEERS.exists():
        return dict.fromkeys(names, "not installed") | ours
    found = subprocess.run([str(PEERS), "-c", ask], stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(zip(names, found.split(), strict=True)) | ours


def main() -> int:
    """Run all cells, or those that are named, in interleaved rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="try each side once, in place of three times")
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--save", type=Path, help="also write the object to this file, after every run")
    options = parser.parse_args()
    rates: dict[str, dict[str, list[float]]] = {}
    problems: list[str] = []
    with EmbeddedServer(settings=SETTINGS) as server:
        versions = _versions(server)
        for number, cell in product(range(1, 2 if options.quick else 4), options.cells.split(",")):
            for side, arguments in CELLS[cell][1].items():
                try:
                    rate = _run(server, side, arguments)
                except (OSError, subprocess.SubprocessError, ValueError) as error:
                    problems.append(f"{cell}, {side}, round {number}: {error}")
                    print(f"round {number}  {cell:<19} {side:<22} FAILED: {error}", file=sys.stderr)
                    continue
                rates.setdefault(cell, {}).setdefault(side, []).append(rate)
                print(f"round {number}  {cell:<19} {side:<22} {rate:>9,.0f} /s", file=sys.stderr)
                if options.save:
                    options.save.write_text(json.dumps(outcome(rates, versions, problems)))
    print(json.dumps(outcome(rates, versions, problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
