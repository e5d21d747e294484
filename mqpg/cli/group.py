"""`mqpg group …`: producer groups."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.choices import Checker, OnExhausted
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows

__all__ = ["app"]

app = typer.Typer(help="Producer groups.", no_args_is_help=True)

_COLUMNS = ["producer_group", "check_after", "max_checks", "on_exhausted", "checker", "checker_target"]
_LIST = (
    "select name as producer_group, check_after::text, max_checks, on_exhausted, checker, checker_target "
    "from mqpg.producer_group order by name"
)


@app.command()
def create(
    name: str,
    checker: Annotated[Checker, typer.Option(help="Who answers check-backs: due_checks, ledger, function or url.")] = (
        "due_checks"
    ),
    target: Annotated[str | None, typer.Option(help="Name of the function or of the configured ledger.")] = None,
    check_after: Annotated[str, typer.Option(help="When an undecided half is overdue.")] = "60 s",
    max_checks: Annotated[int, typer.Option(help="Checks before on_exhausted applies.")] = 15,
    on_exhausted: Annotated[OnExhausted, typer.Option(help="park or rollback.")] = "park",
    dsn: Dsn = None,
) -> None:
    """Create a producer group; nothing happens where it is there with the same settings."""
    with broker(dsn) as mq:
        mq.create_producer_group(name, check_after, max_checks, on_exhausted, checker, target)


@app.command("list")
def list_all(json: Json = False, dsn: Dsn = None) -> None:
    """All producer groups."""
    with broker(dsn) as mq:
        print_rows(rows(mq, _LIST), _COLUMNS, as_json=json)


@app.command()
def alter(
    name: str,
    checker: Annotated[Checker | None, typer.Option(help="due_checks, ledger, function or url.")] = None,
    target: Annotated[str | None, typer.Option(help="Name of the function or of the configured ledger.")] = None,
    check_after: Annotated[str | None, typer.Option(help="When an undecided half is overdue.")] = None,
    max_checks: Annotated[int | None, typer.Option(help="Checks before on_exhausted applies.")] = None,
    on_exhausted: Annotated[OnExhausted | None, typer.Option(help="park or rollback.")] = None,
    dsn: Dsn = None,
) -> None:
    """Change what is given."""
    with broker(dsn) as mq:
        mq.alter_producer_group(
            name,
            check_after=check_after,
            max_checks=max_checks,
            on_exhausted=on_exhausted,
            checker=checker,
            checker_target=target,
        )


@app.command()
def drop(name: str, dsn: Dsn = None) -> None:
    """Drop a producer group that has no undecided half messages."""
    with broker(dsn) as mq:
        mq.drop_producer_group(name)
