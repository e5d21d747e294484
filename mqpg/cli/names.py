"""`mqpg topic create|list` and `mqpg group create|list`."""

from __future__ import annotations

from typing import Annotated, Any

import psycopg
import typer
from psycopg.rows import dict_row

from mqpg import dsn as dsns
from mqpg import migrate
from mqpg.cli.options import Dsn, Json, print_rows

__all__ = ["group", "topic"]

topic = typer.Typer(help="Topics.", no_args_is_help=True)
group = typer.Typer(help="Producer groups.", no_args_is_help=True)

_TOPICS = "select topic, kind, queues, retention::text, paused from mqpg.topics order by topic"
_GROUPS = (
    "select name as producer_group, check_after::text, max_checks, on_exhausted, checker, checker_target "
    "from mqpg.producer_group order by name"
)


@topic.command("create")
def create_topic(
    name: str,
    queues: Annotated[int, typer.Option(help="Ordered lanes; a key always takes the same one.")] = 8,
    retention: Annotated[str, typer.Option(help="How long messages stay, as a PostgreSQL interval.")] = "7 days",
    dsn: Dsn = None,
) -> None:
    """Create a topic; nothing happens where it is there with the same settings."""
    with _connect(dsn) as connection:
        connection.execute(
            "select mqpg.create_topic(%s, queues => %s, retention => %s::interval)", [name, queues, retention]
        )


@topic.command("list")
def list_topics(json: Json = False, dsn: Dsn = None) -> None:
    """All topics."""
    _list(_TOPICS, dsn, as_json=json)


@group.command("create")
def create_group(
    name: str,
    checker: Annotated[str, typer.Option(help="Who answers check-backs: due_checks, ledger, function or url.")] = (
        "due_checks"
    ),
    target: Annotated[str | None, typer.Option(help="Name of the function or of the configured ledger.")] = None,
    check_after: Annotated[str, typer.Option(help="When an undecided half is overdue.")] = "60 s",
    max_checks: Annotated[int, typer.Option(help="Checks before on_exhausted applies.")] = 15,
    on_exhausted: Annotated[str, typer.Option(help="park or rollback.")] = "park",
    dsn: Dsn = None,
) -> None:
    """Create a producer group; nothing happens where it is there with the same settings."""
    with _connect(dsn) as connection:
        connection.execute(
            "select mqpg.create_producer_group(%s, check_after => %s::interval, max_checks => %s, "
            "on_exhausted => %s, checker => %s, checker_target => %s)",
            [name, check_after, max_checks, on_exhausted, checker, target],
        )


@group.command("list")
def list_groups(json: Json = False, dsn: Dsn = None) -> None:
    """All producer groups."""
    _list(_GROUPS, dsn, as_json=json)


def _list(query: str, dsn: str | None, *, as_json: bool) -> None:
    with _connect(dsn) as connection:
        cursor = connection.execute(query)
        print_rows(cursor.fetchall(), [column.name for column in cursor.description or ()], as_json=as_json)


def _connect(dsn: str | None) -> psycopg.Connection[dict[str, Any]]:
    connection = psycopg.connect(dsns.resolve(dsn), autocommit=True, row_factory=dict_row, application_name="mqpg")
    migrate.check_connection(connection)
    return connection
