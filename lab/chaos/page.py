"""The result page on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .result import Result

__all__ = ["show"]


def show(result: Result, console: Console) -> None:
    """Print the result.

    Args:
        result: The result.
        console: Where to print.
    """
    found = result.as_json()
    strikes = ", ".join(f"{count} × {kind}" for kind, count in found["strikes"].items())
    console.print(f"seed {result.seed}: {found['rounds']} rounds, {strikes}", highlight=False)
    table = Table("protocol", "messages")
    table.columns[1].justify = "right"
    for name, count in found["by_protocol"].items():
        table.add_row(name, f"{count:,}")
    table.add_row("all", f"{found['messages']:,}")
    console.print(table)
    table = Table("recovery after", "p50 s", "p99 s", "max s")
    for kind, values in found["recovery_seconds"].items():
        table.add_row(kind, *(f"{values[name]:.1f}" for name in ("p50", "p99", "max")))
    console.print(table)
    for audit in found["audits"]:
        console.print(f"audit of {audit['broker']} by {audit['engine']} ({audit['scope']}): {audit['verdict']}")
    for line in [*result.proven, *result.doubts, *result.ended_by_themselves]:
        console.print(f"  {line}", highlight=False, markup=False)
    if result.kept:
        console.print(f"everything is kept in {result.kept}", highlight=False)
    console.print(f"[bold]{result.verdict}[/bold]")
