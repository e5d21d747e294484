"""`mqpg grant …`, `mqpg revoke …` and `mqpg rights`: who may do what."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mqpg.cli.connecting import broker
from mqpg.cli.options import Dsn, Json, JsonResult, print_result, print_rows

__all__ = ["grant", "revoke", "rights"]

grant = typer.Typer(help="Give a role of PostgreSQL a right.", no_args_is_help=True)
revoke = typer.Typer(help="Take a right from a role, in the words it was granted.", no_args_is_help=True)

_COLUMNS = ["role", "privilege", "topic", "consumer_group", "producer_group", "granted_by", "granted_at"]

Role = Annotated[str, typer.Argument(help="The role, exactly as it is written.")]
Topic = Annotated[str, typer.Argument(help="Topic, or * for all, also later ones.")]
ConsumerGroup = Annotated[str, typer.Argument(help="Consumer group, or * for all.")]
ProducerGroup = Annotated[str, typer.Argument(help="Producer group, or * for all.")]


@grant.command("send")
def grant_send(topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Let a role send to a topic."""
    with broker(dsn) as mq:
        mq.grant_send(topic, role)
    print_result("grant_send", as_json=json, topic=topic, role=role)


@grant.command("produce")
def grant_produce(producer_group: ProducerGroup, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Let a role prepare and decide half messages. To prepare one it also needs send."""
    with broker(dsn) as mq:
        mq.grant_produce(producer_group, role)
    print_result("grant_produce", as_json=json, producer_group=producer_group, role=role)


@grant.command("receive")
def grant_receive(
    consumer_group: ConsumerGroup, topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None
) -> None:
    """Let a role receive a topic for a consumer group."""
    with broker(dsn) as mq:
        mq.grant_receive(consumer_group, topic, role)
    print_result("grant_receive", as_json=json, consumer_group=consumer_group, topic=topic, role=role)


@grant.command("operator")
def grant_operator(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Let a role create and change topics and groups, and grant the rights of applications."""
    with broker(dsn) as mq:
        mq.grant_operator(role)
    print_result("grant_operator", as_json=json, role=role)


@grant.command("auditor")
def grant_auditor(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Let a role read the views, and those that mqpg audit reads."""
    with broker(dsn) as mq:
        mq.grant_auditor(role)
    print_result("grant_auditor", as_json=json, role=role)


@grant.command("worker")
def grant_worker(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Let a role run mqpg worker."""
    with broker(dsn) as mq:
        mq.grant_worker(role)
    print_result("grant_worker", as_json=json, role=role)


@revoke.command("send")
def revoke_send(topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Take the right to send to a topic. Exit status 1: the role did not have it."""
    with broker(dsn) as mq:
        had = mq.revoke_send(topic, role)
    print_result("revoke_send", as_json=json, topic=topic, role=role, revoked=had)
    _require(had)


@revoke.command("produce")
def revoke_produce(producer_group: ProducerGroup, role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Take the right to prepare and decide. Exit status 1: the role did not have it."""
    with broker(dsn) as mq:
        had = mq.revoke_produce(producer_group, role)
    print_result("revoke_produce", as_json=json, producer_group=producer_group, role=role, revoked=had)
    _require(had)


@revoke.command("receive")
def revoke_receive(
    consumer_group: ConsumerGroup, topic: Topic, role: Role, json: JsonResult = False, dsn: Dsn = None
) -> None:
    """Take the right to receive. Exit status 1: the role did not have it."""
    with broker(dsn) as mq:
        had = mq.revoke_receive(consumer_group, topic, role)
    print_result("revoke_receive", as_json=json, consumer_group=consumer_group, topic=topic, role=role, revoked=had)
    _require(had)


@revoke.command("operator")
def revoke_operator(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Take the right to operate. Exit status 1: the role did not have it."""
    with broker(dsn) as mq:
        had = mq.revoke_operator(role)
    print_result("revoke_operator", as_json=json, role=role, revoked=had)
    _require(had)


@revoke.command("auditor")
def revoke_auditor(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Take the right to audit. Exit status 1: the role did not have it."""
    with broker(dsn) as mq:
        had = mq.revoke_auditor(role)
    print_result("revoke_auditor", as_json=json, role=role, revoked=had)
    _require(had)


@revoke.command("worker")
def revoke_worker(role: Role, json: JsonResult = False, dsn: Dsn = None) -> None:
    """Take the right to run workers. Exit status 1: the role did not have it."""
    with broker(dsn) as mq:
        had = mq.revoke_worker(role)
    print_result("revoke_worker", as_json=json, role=role, revoked=had)
    _require(had)


def rights(json: Json = False, dsn: Dsn = None) -> None:
    """List who may do what. Superusers and the owner of the schema are not listed."""
    with broker(dsn) as mq:
        print_rows([asdict(right) for right in mq.rights()], _COLUMNS, as_json=json)


def _require(had: bool) -> None:
    if not had:
        typer.echo("mqpg: the role did not have this right in these words", err=True)
        raise typer.Exit(1)
