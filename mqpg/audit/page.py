"""The report of an audit as a page of text."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from mqpg.values.words import printable

from .report import Report, scope_words
from .verdict import Verdict

__all__ = ["print_page"]

_COLOURS = {Verdict.VALID: "green", Verdict.INVALID: "red", Verdict.UNKNOWN: "yellow"}
_SHOWN = 8


def print_page(report: Report, console: Console) -> None:
    """Print a report."""
    console.print(_head(report))
    console.print(_anomalies(report))
    if any(report.anomalies.values()):
        console.print(_examples(report))
    if report.not_judged:
        console.print(_not_judged(report))
    if report.notes:
        console.print(_notes(report))
    console.print(_equations(report))
    if report.relations:
        console.print(_relations(report))
    if report.latency:
        console.print(_latency(report))
    if report.redelivery:
        console.print(_redelivery(report))


def _head(report: Report) -> Panel:
    run = report.run
    colour = _COLOURS[report.verdict]
    verdict = str(report.verdict)
    lines = [Text(report.headline.replace(verdict, verdict.upper(), 1), style=f"bold {colour}")]
    lines.append(Text(printable(scope_words(report.scope))))
    lines += [Text(f"• {printable(reason)}") for reason in report.reasons]
    lines += [Text(f"• {printable(line)}") for line in report.changes]
    broker = run["broker"]
    lines.append(
        Text(
            f"{run['rows']:,} rows of {len(run['snapshots'])} snapshots in {run['seconds']:.1f} s, "
            f"broker {broker['broker_id']}, PostgreSQL {broker['server_version']}, {_engine(run)}",
            style="dim",
        )
    )
    lines.append(Text(printable(f"{run['at']:%Y-%m-%dT%H:%M:%SZ} by {run['by']}"), style="dim"))
    lines.append(Text(f"findings SHA-256\n{report.findings_sha256}", style="dim"))
    for read in run["snapshots"]:
        lines.append(Text(f"{read['role']:<10} {read['database']}  at {read['snapshot']}", style="dim"))
    if found := run.get("incremental"):
        lines.append(Text(_incremental(found), style="dim"))
    return Panel(Group(*lines), title="mqpg audit", border_style=colour)


def _incremental(found: dict[str, Any]) -> str:
    before, now = (found[name].get("messages", 0) for name in ("judged_before", "judged"))
    if found["judged_again"]:
        return f"everything was judged again, because {found['judged_again']}"
    return (
        f"{before:,} messages were judged before, and have not changed; {now:,} are judged now, {found['open']:,} open"
    )


def _engine(run: dict[str, Any]) -> str:
    return f"engine spark, JDBC driver {run['jdbc']}" if run["engine"] == "spark" else f"engine {run['engine']}"


def _table(title: str, *columns: str, numbers: int = 0) -> Table:
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index >= len(columns) - numbers else "left", overflow="fold")
    return table


def _add_row(table: Table, *cells: str | Text) -> None:
    """Add cells as plain text, in which brackets are no markup and control characters are visible."""
    table.add_row(*(one if isinstance(one, Text) else Text(printable(one)) for one in cells))


def _anomalies(report: Report) -> Table:
    path = report.parameters.get("amount")
    table = _table("Anomalies", "kind", "number", *([f"sum of {printable(path)}"] if path else []))
    for kind, count in report.anomalies.items():
        if count:
            _add_row(
                table,
                kind,
                Text(f"{count:,}", style="bold red"),
                *([str(report.amounts.get(kind, ""))] if path else []),
            )
    if not table.row_count:
        _add_row(table, Text(f"none of {len(report.anomalies)} kinds", style="green"), "0")
    return table


def _examples(report: Report) -> Table:
    table = _table("Examples", "kind", "group", "topic", "queue:offset", "message", "evidence")
    shown: dict[str, int] = {}
    for row in report.examples:
        shown[row["kind"]] = shown.get(row["kind"], 0) + 1
        if shown[row["kind"]] <= _SHOWN:
            position = "" if row["queue_offset"] is None else f"{row['queue_id']}:{row['queue_offset']}"
            _add_row(
                table,
                row["kind"],
                row["consumer_group"] or "",
                row["topic"] or "",
                position,
                str(row["message_id"] or ""),
                row["evidence"],
            )
    return table


def _not_judged(report: Report) -> Table:
    table = _table("Not judged", "what", "name", "messages", numbers=1)
    for one in report.not_judged:
        _add_row(table, one.what, one.name, "" if one.rows is None else f"{one.rows:,}")
    return table


def _notes(report: Report) -> Table:
    table = _table("Notes, which are no anomalies", "kind", "topic", "message", "evidence")
    for row in report.notes[:_SHOWN]:
        _add_row(table, row["kind"], row["topic"] or "", str(row["message_id"] or ""), row["evidence"])
    return table


def _equations(report: Report) -> Table:
    table = _table("Conservation", "scope", "equation", "")
    for one in report.equations:
        right = " + ".join(f"{count:,} {name}" for name, count in one.right.items())
        _add_row(table, one.scope, f"{one.left:,} {one.name} = {right}", _mark(one.holds))
    return table


def _relations(report: Report) -> Table:
    table = _table(
        "Ledgers and consumers (confirmed ≤ consumed ≤ confirmed + U, and equal sets of ids)",
        "ledger",
        "group",
        "topic",
        "confirmed",
        "U",
        "consumed",
        "excused",
        "≤",
        "≥",
        "ids",
    )
    for one in report.relations:
        _add_row(
            table,
            one.ledger,
            one.consumer_group,
            one.topic,
            f"{one.confirmed:,}",
            f"{one.open:,}",
            f"{one.consumed:,}",
            f"{one.excused:,}",
            _mark(one.confirmed_le_consumed),
            _mark(one.confirmed_plus_open_ge_consumed),
            _mark(one.ids_equal),
        )
    return table


def _latency(report: Report) -> Table:
    table = _table("Latency in seconds", "step", "topic", "group", "p50", "p95", "p99", "max", "messages", numbers=5)
    for row in report.latency:
        _add_row(
            table,
            row["step"],
            row["topic"],
            row["consumer_group"] or "",
            *(f"{row[name]:.3f}" for name in ("p50", "p95", "p99", "max")),
            f"{row['messages']:,}",
        )
    return table


def _redelivery(report: Report) -> Table:
    table = _table("Messages by how often they were applied, and by attempts", "what", "group", "topic", "histogram")
    for row in report.redelivery:
        bars = ", ".join(f"{value}×: {count:,}" for value, count in row["histogram"].items())
        _add_row(table, row["what"], row["consumer_group"], row["topic"], bars)
    return table


def _mark(holds: bool | None) -> Text:
    return Text("open", style="yellow") if holds is None else Text("✓", "green") if holds else Text("✗", "bold red")
