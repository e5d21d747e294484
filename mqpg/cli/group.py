"""`mqpg group …`: producer groups, and who answers their check-backs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mqpg.cli.completion import complete_producer_group
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, JsonResult, print_result, print_rows
from mqpg.values.choices import Checker, OnExhausted

__all__ = ["app"]

app = typer.Typer(help="Create, list, alter and drop producer groups.", no_args_is_help=True)

_COLUMNS = ["producer_group", "check_after", "max_checks", "on_exhausted", "checker", "checker_target", "expire_after"]
_LIST = "select * from mqpg._producer_groups()"


Name = Annotated[str, typer.Argument(help="Producer group.", autocompletion=complete_producer_group)]
ExpireAfter = Annotated[
    str, typer.Option(help="How long a half message may stay undecided before it is rolled back, or never.")
]
_NEVER = "100 years"  # the server takes it for never


@app.command()
def create(
    name: Name,
    checker: Annotated[Checker, typer.Option(help="Who answers check-backs: due_checks, ledger, function or url.")] = (
        "due_checks"
    ),
    target: Annotated[
        str | None, typer.Option(help="The name of the SQL function, or of the ledger in the worker's configuration.")
    ] = None,
    check_after: Annotated[
        str, typer.Option(help="How long a half message may stay undecided before it is checked back.")
    ] = "60 s",
    max_checks: Annotated[
        int, typer.Option(help="The number of checks without a result after which on_exhausted applies.")
    ] = 15,
    on_exhausted: Annotated[
        OnExhausted, typer.Option(help="What then happens to the half message: park or rollback.")
    ] = "park",
    expire_after: ExpireAfter = "7 days",
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Create a producer group. If it exists with the same settings, nothing happens."""
    chosen: dict[str, Any] = {
        "check_after": check_after,
        "max_checks": max_checks,
        "on_exhausted": on_exhausted,
        "checker": checker,
        "checker_target": target,
        "expire_after": _expiry(expire_after),
    }
    with broker(dsn) as mq:
        mq.create_producer_group(name, **chosen)
    print_result("create_producer_group", as_json=json, producer_group=name, **chosen)


@app.command("list")
def list_all(json: Json = False, dsn: Dsn = None) -> None:
    """List all producer groups."""
    with broker(dsn) as mq:
        print_rows(rows(mq, _LIST), _COLUMNS, as_json=json)


@app.command()
def alter(
    name: Name,
    checker: Annotated[
        Checker | None, typer.Option(help="Who answers check-backs: due_checks, ledger, function or url.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The name of the SQL function, or of the ledger in the worker's configuration.")
    ] = None,
    check_after: Annotated[
        str | None, typer.Option(help="How long a half message may stay undecided before it is checked back.")
    ] = None,
    max_checks: Annotated[
        int | None, typer.Option(help="The number of checks without a result after which on_exhausted applies.")
    ] = None,
    on_exhausted: Annotated[
        OnExhausted | None, typer.Option(help="What then happens to the half message: park or rollback.")
    ] = None,
    expire_after: ExpireAfter | None = None,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Change the given settings of a producer group."""
    changes: dict[str, Any] = {
        "check_after": check_after,
        "max_checks": max_checks,
        "on_exhausted": on_exhausted,
        "checker": checker,
        "checker_target": target,
        "expire_after": _expiry(expire_after),
    }
    with broker(dsn) as mq:
        mq.alter_producer_group(name, **changes)
    print_result("alter_producer_group", as_json=json, producer_group=name, **changes)


@app.command()
def drop(name: Name, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Drop a producer group that has no undecided half messages."""
    with broker(dsn) as mq:
        mq.drop_producer_group(name)
    print_result("drop_producer_group", as_json=json, producer_group=name)


def _expiry(text: str | None) -> str | None:
    return _NEVER if text == "never" else text
