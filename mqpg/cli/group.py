"""`mqpg group …`: producer groups, and who answers their check-backs."""

from __future__ import annotations

from typing import Annotated

import typer

from mqpg.cli.completion import complete_producer_group
from mqpg.cli.connecting import broker, call, rows
from mqpg.cli.options import Dsn, Json, JsonResult, print_rows
from mqpg.values.choices import Checker, OnExhausted

__all__ = ["app"]

app = typer.Typer(help="Create, list, alter and drop producer groups.", no_args_is_help=True)

_COLUMNS = [
    "producer_group",
    "check_after",
    "max_checks",
    "on_exhausted",
    "checker",
    "checker_target",
    "expire_after",
    "max_undecided",
]
_LIST = "select * from mqpg._producer_groups()"


Name = Annotated[str, typer.Argument(metavar="name", help="Producer group.", autocompletion=complete_producer_group)]
CheckerOption = Annotated[
    Checker | None, typer.Option(help="Who answers check-backs: due_checks, ledger, function or url.")
]
Target = Annotated[
    str | None,
    typer.Option("--target", help="The name of the SQL function, or of the ledger in the worker's configuration."),
]
CheckAfter = Annotated[
    str | None, typer.Option(help="How long a half message may stay undecided before it is checked back.")
]
MaxChecks = Annotated[
    int | None, typer.Option(help="The number of checks without a result after which on_exhausted applies.")
]
OnExhaustedOption = Annotated[
    OnExhausted | None, typer.Option(help="What then happens to the half message: park or rollback.")
]
ExpireAfter = Annotated[
    str | None, typer.Option(help="How long a half message may stay undecided before it is rolled back, or never.")
]
MaxUndecided = Annotated[
    int | None, typer.Option(help="How many half messages may be undecided; with more, prepare fails (MQ026).")
]
_NEVER: dict[str | None, str] = {"never": "100 years"}  # which the server takes for never


@app.command()
def create(
    producer_group: Name,
    checker: CheckerOption = "due_checks",
    checker_target: Target = None,
    check_after: CheckAfter = "60 s",
    max_checks: MaxChecks = 15,
    on_exhausted: OnExhaustedOption = "park",
    expire_after: ExpireAfter = "7 days",
    max_undecided: MaxUndecided = 100000,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Create a producer group. If it exists with the same settings, nothing happens."""
    call("create_producer_group", **locals() | {"expire_after": _NEVER.get(expire_after, expire_after)})


@app.command("list")
def list_all(json: Json = False, dsn: Dsn = None) -> None:
    """List all producer groups."""
    with broker(dsn) as mq:
        print_rows(rows(mq, _LIST), _COLUMNS, as_json=json)


@app.command()
def alter(
    producer_group: Name,
    checker: CheckerOption = None,
    checker_target: Target = None,
    check_after: CheckAfter = None,
    max_checks: MaxChecks = None,
    on_exhausted: OnExhaustedOption = None,
    expire_after: ExpireAfter = None,
    max_undecided: MaxUndecided = None,
    json: JsonResult = False,
    dsn: Dsn = None,
) -> None:
    """Change the given settings of a producer group."""
    call("alter_producer_group", **locals() | {"expire_after": _NEVER.get(expire_after, expire_after)})


@app.command()
def drop(producer_group: Name, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Drop a producer group that has no undecided half messages."""
    call("drop_producer_group", **locals())
