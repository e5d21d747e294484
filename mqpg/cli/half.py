"""`mqpg half …`: undecided half messages."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from mqpg.choices import Decision
from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows
from mqpg.message import Outcome

__all__ = ["app"]

app = typer.Typer(help="List and decide half messages that are still undecided.", no_args_is_help=True)

_COLUMNS = ["handle", "producer_group", "topic", "prepared_at", "check_at", "checks", "reason", "state"]
_LIST = """
    select h.* from (
        select handle, producer_group, topic, prepared_at, check_at, checks, reason, 'parked' as state
        from mqpg.half_parked
        union all
        select handle, producer_group, topic, prepared_at, check_at, checks, reason, 'pending'
        from mqpg.half_pending where not %(parked)s
    ) as h
    where h.producer_group = coalesce(%(group)s, h.producer_group)
    order by h.prepared_at limit %(limit)s
"""

Handle = Annotated[str, typer.Argument(help="The handle, as `mqpg half list` prints it.")]


@app.command("list")
def list_some(
    group: Annotated[str | None, typer.Option("--group", help="Only half messages of this producer group.")] = None,
    parked: Annotated[
        bool, typer.Option("--parked", help="Only half messages that are parked, because their checks are used up.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="List at most this number of half messages.")] = 100,
    json: Json = False,
    dsn: Dsn = None,
) -> None:
    """List undecided half messages, the oldest first."""
    with broker(dsn) as mq:
        found = rows(mq, _LIST, {"group": group, "parked": parked, "limit": limit})
    print_rows(found, _COLUMNS, as_json=json)


@app.command()
def settle(
    handle: Handle,
    verdict: Annotated[str, typer.Argument(help="commit or rollback.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; stored with the decision.")],
    dsn: Dsn = None,
) -> None:
    """Decide a half message by hand, and print the outcome.

    Exit status 1 where it was decided otherwise before, or where its handle is unknown.
    """
    with broker(dsn) as mq:
        outcome = mq.settle(handle, cast("Decision", verdict), reason)
    typer.echo(outcome)
    if outcome is Outcome.UNKNOWN or not outcome.removeprefix("already_").startswith(verdict.replace("back", "")):
        raise typer.Exit(1)


@app.command()
def rearm(handle: Handle, dsn: Dsn = None) -> None:
    """Start the check-backs of a parked half message again, counting from 0."""
    with broker(dsn) as mq:
        mq.rearm(handle)
