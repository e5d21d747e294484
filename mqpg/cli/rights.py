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
# Rights that name a role alone -> what that role may do, and what is taken from it.
_OF_ROLES = {
    "operator": ("create and change topics and groups, and grant the rights of applications", "operate"),
    "auditor": ("read the views, and those that mqpg audit reads", "audit"),
    "worker": ("run mqpg worker", "run workers"),
}

Role = Annotated[str, typer.Argument(help="The role, exactly as it is written.")]
Topic = Annotated[str, typer.Argument(help="Topic, or * for all, also later ones.")]
ConsumerGroup = Annotated[str, typer.Argument(help="Consumer group, or * for all.")]
ProducerGroup = Annotated[str, typer.Argument(help="Producer group, or * for all.")]


@grant.command("send")
def _grant_send(topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Let a role send to a topic."""
    _call("grant_send", json, dsn, topic=topic, role=role)


@grant.command("produce")
def _grant_produce(producer_group: ProducerGroup, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Let a role prepare and decide half messages. To prepare one it also needs send."""
    _call("grant_produce", json, dsn, producer_group=producer_group, role=role)


@grant.command("receive")
def _grant_receive(
    consumer_group: ConsumerGroup, topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None
) -> None:
    """Let a role receive a topic for a consumer group."""
    _call("grant_receive", json, dsn, consumer_group=consumer_group, topic=topic, role=role)


@revoke.command("send")
def _revoke_send(topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Take the right to send to a topic. Exit status 1: the role did not have it."""
    _call("revoke_send", json, dsn, topic=topic, role=role)


@revoke.command("produce")
def _revoke_produce(producer_group: ProducerGroup, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Take the right to prepare and decide. Exit status 1: the role did not have it."""
    _call("revoke_produce", json, dsn, producer_group=producer_group, role=role)


@revoke.command("receive")
def _revoke_receive(
    consumer_group: ConsumerGroup, topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None
) -> None:
    """Take the right to receive. Exit status 1: the role did not have it."""
    _call("revoke_receive", json, dsn, consumer_group=consumer_group, topic=topic, role=role)


def _of_role(action: str) -> Callable[..., None]:
    def command(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
        _call(action, json, dsn, role=role)

    return command


for _right, (_may, _taken) in _OF_ROLES.items():
    grant.command(_right, help=f"Let a role {_may}.")(_of_role(f"grant_{_right}"))
    revoke.command(_right, help=f"Take the right to {_taken}. Exit status 1: the role did not have it.")(
        _of_role(f"revoke_{_right}")
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
