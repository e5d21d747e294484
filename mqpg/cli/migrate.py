"""`mqpg migrate [up|status|adopt|sql]`: the schema in the broker's database."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mqpg.cli.options import Dsn, Json, JsonResult, print_result, print_rows, printable, say
from mqpg.cli.progress import progress
from mqpg.connection import dsn as dsns
from mqpg.embedded import locate
from mqpg.schema import migrate
from mqpg.values.errors import ConfigurationError

__all__ = ["app"]

app = typer.Typer(help="Install or upgrade the schema. Without a command: up.", invoke_without_command=True)


Owner = Annotated[
    str | None,
    typer.Option(
        "--owner",
        help="The role that owns a new schema; made if it is missing. Default: mqpg_owner, "
        "or the role that migrates if it may not create that.",
    ),
]


@app.callback()
def _default(context: typer.Context, dsn: Dsn = None, owner: Owner = None, json: JsonResult = False) -> None:
    context.obj = (dsn, owner, json)
    if context.invoked_subcommand is None:
        up(context, dsn, owner, json)


@app.command()
def up(context: typer.Context, dsn: Dsn = None, owner: Owner = None, json: JsonResult = False) -> None:
    """Install this release's schema, or upgrade the database to it, in one transaction.

    Producers and consumers may continue meanwhile.
    """
    where = _where(context, dsn)
    with progress("migration, which waits for locks"):
        done = migrate.upgrade(where, owner=_owner(context, owner))
    as_json = _as_json(context, json)
    if not as_json:
        say(f"{dsns.describe(where)}: schema of mqpg {done.release}, migration {done.current}")
    problems = migrate.problems(where, if_allowed=True)
    print_result(
        "migrate",
        as_json=as_json,
        database=dsns.describe(where),
        release=done.release,
        migration=done.current,
        problems=problems,
    )
    for line in problems:
        typer.echo(f"mqpg: {printable(line)}", err=True)


@app.command()
def status(context: typer.Context, dsn: Dsn = None, json: Json = False) -> None:
    """Print the installed version and this release's.

    Exit status 1 if `mqpg migrate` would change something.
    """
    found = migrate.status(_where(context, dsn))
    row = asdict(found)
    print_rows([row], list(row), as_json=_as_json(context, json))
    if not found.up_to_date:
        raise typer.Exit(1)


@app.command()
def adopt(
    context: typer.Context,
    same_xids: Annotated[
        bool, typer.Option("--same-xids", help="The copy has kept its transaction ids, as after pg_upgrade.")
    ] = False,
    promoted: Annotated[
        bool, typer.Option("--promoted", help="Do nothing unless the server was promoted or recovered.")
    ] = False,
    dsn: Dsn = None,
    json: JsonResult = False,
) -> None:
    """Make a restored, promoted or recovered copy a broker again.

    Stop all workers and clients first. With --promoted they may continue: this is for the hook of a
    failover manager.
    """
    if promoted and same_xids:
        raise ConfigurationError("--promoted and --same-xids exclude each other: a promotion keeps transaction ids")
    where = _where(context, dsn)
    done = migrate.adopt_promoted(where) if promoted else migrate.adopt(where, same_xids=same_xids)
    text = done or "the server was not promoted: nothing to do"
    print_result(
        "adopt", f"{dsns.describe(where)}: {text}", as_json=_as_json(context, json), adopted=bool(done), detail=text
    )


@app.command()
def sql(
    context: typer.Context,
    upgrade_from: Annotated[
        int | None,
        typer.Option("--from", min=1, help="Print the upgrade of a database whose last migration is this one."),
    ] = None,
    owner: Owner = None,
) -> None:
    """Print one script for psql that installs or upgrades the schema without Python."""
    typer.echo(migrate.script(upgrade_from, owner=_owner(context, owner)), nl=False)


def _where(context: typer.Context, dsn: str | None) -> str:
    return locate.resolve(context.obj[0] if dsn is None else dsn)


def _as_json(context: typer.Context, json: bool) -> bool:
    return json or bool(context.obj[2])


def _owner(context: typer.Context, owner: str | None) -> str | None:
    """The option may stand before the command, too, like the others."""
    given: str | None = context.obj[1]
    return given if owner is None else owner
