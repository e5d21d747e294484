"""`make cost`: what the calls of mqpg cost beside bare SQL, PgQ and pgmq, in instructions."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import psycopg
import typer

from lab.bench.sides import SIDES
from lab.bench.sides.base import Unavailable
from mqpg.embedded import EmbeddedServer
from mqpg.embedded.programs import current_account, find_binaries, readable_for

from .cases import CASES, SETUP, Case
from .count import count

__all__ = ["main", "reached"]

_REACHED = Path(__file__).with_name("reached.csv")
_MARGIN = 1.2  # a budget, as a multiple of what was reached
_Counts = dict[tuple[str, str], float]  # thousand instructions a message, by name and side


def main(
    check: Annotated[bool, typer.Option("--check", help="Count mqpg only; fail if a call is over its budget.")] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Write the counts to reached.csv, which sets the budgets.")
    ] = False,
) -> None:
    """Count on the server that MQPG_POSTGRES_BIN names, or else the embedded one."""
    version, counts = _measure(["mqpg"] if check else SETUP)
    budgets = {(row["name"], "mqpg"): float(row["mqpg"]) * _MARGIN for row in reached() if row["postgresql"] == version}
    over = [key for key, budget in budgets.items() if counts.get(key, 0) > budget]
    print(f"Thousand instructions a message, PostgreSQL {version}\n")
    _show(counts, budgets)
    if save:
        _save(version, counts)
    if check and (over or not budgets):
        print(f"\nOver budget: {', '.join(name for name, _ in over) or 'there is none for this version'}")
        raise typer.Exit(1)


def _measure(sides: Iterable[str]) -> tuple[str, _Counts]:
    """The server's major version, and the counts of these sides if they can be installed."""
    binaries = readable_for(current_account(), find_binaries())
    with EmbeddedServer(binaries=binaries) as server:
        dsn = server.create_database("cost")
        installed = []
        with psycopg.connect(dsn, autocommit=True) as connection:
            for side in sides:
                try:
                    SIDES[side].install(dsn)
                except Unavailable as reason:
                    print(f"without {side}: {reason}")
                    continue
                installed.append(side)
                for statement in SETUP[side]:
                    connection.execute(statement)
            version = str(connection.info.server_version // 10_000)
        server.stop()
        cases: list[Case] = [case for case in CASES if case.side in installed]
        counts = count(binaries / "postgres", server.pgdata, "cost", cases)
    return version, {(case.name, case.side): n / 1000 for case, n in zip(cases, counts, strict=True)}


def _names(counts: _Counts) -> list[str]:
    """The rows of the table, in the order of the cases."""
    return [name for name in dict.fromkeys(case.name for case in CASES) if any(name == found for found, _ in counts)]


def _show(counts: _Counts, budgets: _Counts) -> None:
    sides = [side for side in SETUP if any(side == found for _, found in counts)]
    print("|".join(f"{title:>10}" if at else f"{title:<26}" for at, title in enumerate(["call", *sides, "budget"])))
    for name in _names(counts):
        cells = [counts.get((name, side)) for side in sides] + [budgets.get((name, "mqpg"))]
        print("|".join([f"{name:<26}", *(f"{cell:>10,.1f}" if cell else f"{'':>10}" for cell in cells)]))


def reached() -> list[dict[str, str]]:
    """The rows of reached.csv."""
    with _REACHED.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _save(version: str, counts: _Counts) -> None:
    rows = [row for row in reached() if row["postgresql"] != version]
    for name in _names(counts):
        cells = {side: f"{cell:.1f}" for side in SETUP if (cell := counts.get((name, side)))}
        rows.append({"postgresql": version, "name": name, **cells})
    with _REACHED.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["postgresql", "name", *SETUP], lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: row["postgresql"]))


if __name__ == "__main__":
    typer.run(main)
