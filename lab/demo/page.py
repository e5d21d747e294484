"""The result page: what happened, what was broken meanwhile, what was proven."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .expected import Cell
from .result import Result

__all__ = ["show"]

_MOST_MISMATCHES = 10


def show(result: Result, console: Console) -> None:
    """Print the page."""
    style, word = ("green", "PROVEN") if result.ok else ("red", "NOT PROVEN")
    title = Text.assemble((f" {word} ", f"bold reverse {style}"), f"  {result.flights:,} flights, seed {result.seed}")
    parts: list[RenderableType] = [_flow(result), _breakage(result), _proof(result)]
    if result.mismatches:
        parts.append(_mismatches(result))
    console.print(Panel(Group(*parts), title=title, subtitle=result.server, border_style=style, padding=(0, 2)))
    for name, where in result.kept.items():
        console.print(f"{name:<8} {where}", markup=False, highlight=False, soft_wrap=True)


def _table(heading: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=True, expand=True, title_justify="left")
    table.add_column(heading, width=24)
    table.add_column("", width=9, justify="right")
    table.add_column("", ratio=1, style="dim")
    return table


def _flow(result: Result) -> Table:
    decisions, due = result.decisions, result.flights - result.cancelled
    rate = result.flights / result.flying_seconds if result.flying_seconds else 0.0
    table = _table("What happened")
    table.add_row("flights in the file", f"{result.flights:,}", f"{result.cancelled:,} of them cancelled")
    table.add_row("departed", _count(result.departed, due), "rows in the airline's database")
    table.add_row("committed", _count(decisions.committed, due), "half messages made visible by the broker")
    table.add_row("on the board", _count(result.consumed, due), "counted in a third database")
    table.add_row(
        "rolled back",
        _count(result.rolled_back, result.cancelled),
        "cancelled flights: local transaction and half message",
    )
    asked = decisions.committed_by_check + decisions.rolled_back_by_check
    words = f"ledger asked: {decisions.committed_by_check} committed, {decisions.rolled_back_by_check} rolled back"
    table.add_row("check-backs", f"{asked:,}", words)
    table.add_row("time", f"{result.seconds:.0f} s", f"{rate:,.0f} flights/s; audit {result.audit_seconds:.0f} s")
    return table


def _breakage(result: Result) -> Table:
    table = _table("Broken meanwhile")
    for role, count in result.kills.items():
        table.add_row(f"{role} killed", str(count), "SIGKILL, then started again")
    table.add_row("PostgreSQL restarted", str(result.restarts), "immediate shutdown" if result.restarts else "")
    if result.disconnects:
        table.add_row("connections cut", str(result.disconnects), "the demo does not restart an existing server")
    if result.spared:
        table.add_row(Text("did not fall", "bold red"), str(result.spared), "kills that were planned")
    if result.crashes:
        table.add_row(
            Text("ended by themselves", "yellow"), str(result.crashes), "processes that the demo had not killed"
        )
    return table


def _proof(result: Result) -> Table:
    table = _table("What was proven")
    audit = result.audit
    found = ", ".join(f"{count} {kind}" for kind, count in audit.anomalies.items()) or "no anomaly"
    table.add_row("Spark audit", _verdict(audit.verdict, audit.verdict == "valid"), f"three databases: {found}")
    wrong = len(result.mismatches)
    table.add_row(
        "board = file",
        _verdict("equal" if not wrong else "differs", not wrong),
        f"{result.cells - wrong} of {result.cells} cells (airport and day)",
    )
    table.add_row(
        "counts",
        _verdict("equal" if result.counts_match else "differ", result.counts_match),
        "flights, ledger, broker and board agree" if result.drained else "not drained in time",
    )
    return table


def _mismatches(result: Result) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Cells that differ", title_justify="left")
    for heading in ("airport", "day", "in the file", "on the board"):
        table.add_column(heading)
    for cell in result.mismatches[:_MOST_MISMATCHES]:
        table.add_row(cell.origin, cell.day, _cell(cell.expected), _cell(cell.shown))
    return table


def _cell(cell: Cell | None) -> str:
    return "none" if cell is None else f"{cell.departures} departures, {cell.delay} min"


def _count(value: int, expected: int) -> Text:
    return Text(f"{value:,}", "green" if value == expected else "bold red")


def _verdict(word: str, good: bool) -> Text:
    return Text(word, "bold green" if good else "bold red")
