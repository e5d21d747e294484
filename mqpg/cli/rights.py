"""`mqpg grant …`, `mqpg revoke …` and `mqpg rights`: who may do what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from mqpg.cli.connecting import broker
from mqpg.cli.options import Dsn, Json, JsonResult, print_result, print_rows

__all__ = ["grant", "revoke", "rights"]

grant = typer.Typer(help="Give a role of PostgreSQL a right.", no_args_is_help=True)
revoke = typer.Typer(help="Take a right from a role, in the words it was granted.", no_args_is_help=True)

_COLUMNS = ["role", "privilege", "topic", "consumer_group", "producer_group", "granted_by", "granted_at"]
# Right -> what a role may do that has it, and what is taken from it.
_MAY = {
    "send": ("send to a topic", "send to a topic"),
    "produce": ("prepare and decide half messages. To prepare one it also needs send", "prepare and decide"),
    "receive": ("receive a topic for a consumer group", "receive"),
    "operator": ("create and change topics and groups, and grant the rights of applications", "operate"),
    "auditor": ("read the views, and those that mqpg audit reads", "audit"),
    "worker": ("run mqpg worker", "run workers"),
}

Role = Annotated[str, typer.Argument(help="The role, exactly as it is written.")]
Topic = Annotated[str, typer.Argument(help="Topic, or * for all, also later ones.")]
ConsumerGroup = Annotated[str, typer.Argument(help="Consumer group, or * for all.")]
ProducerGroup = Annotated[str, typer.Argument(help="Producer group, or * for all.")]


def _command(action: str, right: str) -> Callable[..., None]:
    def send(topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
        _call(action, json, dsn, topic=topic, role=role)

    def produce(producer_group: ProducerGroup, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
        _call(action, json, dsn, producer_group=producer_group, role=role)

    def receive(
        consumer_group: ConsumerGroup, topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None
    ) -> None:
        _call(action, json, dsn, consumer_group=consumer_group, topic=topic, role=role)

    def of_role(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
        _call(action, json, dsn, role=role)

    of_names: dict[str, Callable[..., None]] = {"send": send, "produce": produce, "receive": receive}
    return of_names.get(right, of_role)


for _right, (_may, _taken) in _MAY.items():
    grant.command(_right, help=f"Let a role {_may}.")(_command(f"grant_{_right}", _right))
    revoke.command(_right, help=f"Take the right to {_taken}. Exit status 1: the role did not have it.")(
        _command(f"revoke_{_right}", _right)
    )


def _call(action: str, as_json: bool, dsn: str | None, **names: str) -> None:
    """Call the method of the client that grants or revokes. One that revokes says whether there was something."""
    with broker(dsn) as mq:
        had = getattr(mq, action)(**names)
    print_result(action, as_json=as_json, **names, revoked=had)
    if had is False:
        typer.echo("mqpg: the role did not have this right in these words", err=True)
        raise typer.Exit(1)


def rights(json: Json = False, dsn: Dsn = None) -> None:
    """List who may do what. Superusers and the owner of the schema are not listed."""
    with broker(dsn) as mq:
        print_rows([asdict(right) for right in mq.rights()], _COLUMNS, as_json=json)
