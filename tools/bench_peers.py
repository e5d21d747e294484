"""Measure mqpg beside the Python job queues procrastinate and pgqueuer, for `make bench-peers`.

    python tools/bench_peers.py --rounds 3

A side that fails is named, and the others continue. With --save the object is in that file after
every run, so that none is lost.

Each run has a fresh database on one server. The rounds are interleaved: every round runs each cell
on all of its sides in turn. A side is a program in benchmarks/peers, so that each has a process and
an environment of its own. mqpg's workers run beside its client. It prints one JSON object.
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
from psycopg.conninfo import conninfo_to_dict

from mqpg.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "benchmarks" / "peers"
PEERS = ROOT / ".peers" / "bin" / "python"
SETTINGS = {"max_wal_size": "4GB", "checkpoint_timeout": "30min", "shared_buffers": "512MB"}
COUNT = 20_000  # jobs of a cell that consumes
SLOW_COUNT = 2_000  # the same for procrastinate, which handles hundreds a second
SECONDS = 2.0  # of a cell that sends

# A side of a cell: its program, and the program's arguments, without the DSN.
Side = tuple[str, list[str]]


def _sends(tasks: int) -> dict[str, Side]:
    told = [str(tasks), str(SECONDS)]
    return {
        "mqpg": ("mqpg", ["send", *told, "together"]),
        "mqpg, no batching": ("mqpg", ["send", *told, "alone"]),
        "procrastinate": ("procrastinate", ["send", *told]),
        "pgqueuer": ("pgqueuer", ["send", *told]),
    }


def _halves(tasks: int) -> dict[str, Side]:
    told = [str(tasks), str(SECONDS)]
    return {
        "mqpg": ("mqpg", ["send", *told, "half"]),
        "mqpg, no batching": ("mqpg", ["send", *told, "half alone"]),
    }


def _consumers(where: str) -> dict[str, Side]:
    return {
        "mqpg": ("mqpg", ["consume", str(COUNT), "8", where]),
        "procrastinate": ("procrastinate", ["consume", str(SLOW_COUNT), "8"]),
        "pgqueuer": ("pgqueuer", ["consume", str(COUNT), "0"]),
    }


CELLS: dict[str, tuple[str, dict[str, Side]]] = {
    "send-16": ("send one by one, asyncio, 16 tasks", _sends(16)),
    "send-100": ("the same, 100 tasks", _sends(100)),
    "half-16": ("prepare and commit one by one, asyncio, 16 tasks", _halves(16)),
    "half-100": ("the same, 100 tasks", _halves(100)),
    "consume-c1": ("consumer C1, handler that does nothing, concurrency 8", _consumers("broker")),
    "consume-c3": ("consumer C3, handler that does nothing, concurrency 8", _consumers("each")),
    "consume-c3-delivery": ("the same, acknowledged by deliveries", _consumers("delivery")),
    "consume-c3-batch": ("consumer C3 whose handler takes whole deliveries", _consumers("batch")),
}


def run(dsn: str, side: Side) -> float:
    """Run one side of a cell in a fresh database; messages per second."""
    name, told = side
    action, *rest = told
    with _database(dsn) as target:
        _program(name, "install", target)
        with _worker(target) if name == "mqpg" else _nothing():
            found = json.loads(_program(name, action, target, *rest))
    return float(found["count"] / found["seconds"])


def _program(name: str, *arguments: str) -> str:
    python = sys.executable if name == "mqpg" else str(PEERS)
    if not Path(python).exists():
        raise FileNotFoundError(f"{name} is not installed: tools/peers.sh failed")
    command = [python, str(PROGRAMS / f"{name}_jobs.py"), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


@contextmanager
def _database(dsn: str) -> Iterator[str]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("drop database if exists mqpg_peers with (force)")
        conn.execute("create database mqpg_peers")
        conn.execute("checkpoint")
        parts = conninfo_to_dict(dsn)
        yield (f"postgresql://{parts['user']}:{parts.get('password', '')}@{parts['host']}:{parts['port']}/mqpg_peers")
        conn.execute("drop database mqpg_peers with (force)")


@contextmanager
def _worker(dsn: str) -> Iterator[None]:
    environment = os.environ | {"MQPG_DATABASE_URL": dsn}
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("mqpg")), "worker"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def outcome(rates: dict[str, dict[str, list[float]]], version: str, problems: list[str]) -> dict[str, Any]:
    """The figures of all runs: the median of each side, and mqpg's ratio to each other side."""
    cells = []
    for cell, sides in rates.items():
        medians = {side: median(found) for side, found in sides.items()}
        cells.append(
            {
                "cell": cell,
                "title": CELLS[cell][0],
                "sides": {
                    side: {
                        "median": round(medians[side]),
                        "spread": round((max(found) - min(found)) / 2 / medians[side], 3),
                        "rates": [round(rate) for rate in found],
                    }
                    for side, found in sides.items()
                },
                "ratios": {
                    side: round(medians["mqpg"] / rate, 2)
                    for side, rate in medians.items()
                    if side != "mqpg" and "mqpg" in medians
                },
            }
        )
    versions = _versions() | {"PostgreSQL": version, "Python": platform.python_version()}
    return {"versions": versions, "cells": cells, "problems": problems}


def _versions() -> dict[str, str]:
    names = ("procrastinate", "pgqueuer", "asyncpg")
    if not PEERS.exists():
        return dict.fromkeys(names, "not installed")
    ask = f"from importlib.metadata import version as v; print(*map(v, {names!r}))"
    found = subprocess.run([str(PEERS), "-c", ask], stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(zip(names, found.split(), strict=True))


def main() -> int:
    """Run all cells, or those that are named, in interleaved rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, help="default: 3, or 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="try each side once")
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--save", type=Path, help="also write the object to this file, after every run")
    options = parser.parse_args()
    rates: dict[str, dict[str, list[float]]] = {}
    problems: list[str] = []
    with EmbeddedServer(settings=SETTINGS) as server:
        with psycopg.connect(server.dsn()) as conn:
            version = str(conn.info.parameter_status("server_version"))
        rounds = options.rounds or (1 if options.quick else 3)
        for number, cell in product(range(1, rounds + 1), options.cells.split(",")):
            for name, side in CELLS[cell][1].items():
                try:
                    rate = run(server.dsn(), side)
                except (OSError, subprocess.SubprocessError, ValueError) as error:
                    problems.append(f"{cell}, {name}, round {number}: {error}")
                    print(f"round {number}  {cell:<17} {name:<22} FAILED: {error}", file=sys.stderr)
                    continue
                rates.setdefault(cell, {}).setdefault(name, []).append(rate)
                print(f"round {number}  {cell:<17} {name:<22} {rate:>9,.0f} /s", file=sys.stderr)
                if options.save:
                    options.save.write_text(json.dumps(outcome(rates, version, problems)))
    print(json.dumps(outcome(rates, version, problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
