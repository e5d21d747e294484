"""`alembic revision --autogenerate`: the directives that make the broker what the declarations say.

Compared are topics, producer groups, subscriptions and rights that are declared in the MetaData. A
generated migration takes back what an earlier generated migration made and the MetaData no longer
declares; a topic, which holds messages, it never drops. Everything else at the broker is left
alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from alembic.autogenerate import comparators
from alembic.autogenerate.api import AutogenContext
from alembic.operations import MigrateOperation
from alembic.operations.ops import UpgradeOps
from alembic.util import CommandError
from sqlalchemy import Connection, MetaData, text
from sqlalchemy.exc import DBAPIError

from mqpg.alembic.directives import CALLS, SPANS, Nothing, directive, given, literal
from mqpg.alembic.history import generated
from mqpg.values.declarations import (
    Declaration,
    ProducerGroup,
    Subscription,
    Topic,
    declared_in,
    defaults,
    identity,
    settings,
)

__all__: list[str] = []

log = logging.getLogger("alembic.autogenerate.mqpg")

Row = dict[str, Any]
Made = tuple[str, tuple[str, ...]]

_ALTERS = {
    "create_topic": "alter_topic",
    "create_producer_group": "alter_producer_group",
    "subscribe": "alter_subscription",
}
_DEFAULTS = {kind._call: defaults(kind) for kind in (Topic, ProducerGroup, Subscription)}
_GROUPS = """
    select producer_group, check_after, max_checks, on_exhausted, checker, checker_target, max_undecided,
        nullif(expire_after, 'never') as expire_after
    from mqpg._producer_groups()
"""
_RIGHTS = "select * from mqpg.rights where privilege = '{}'"
# In the order in which a migration makes them.
_QUERIES = {
    "create_topic": "select * from mqpg.topics",
    "create_producer_group": _GROUPS,
    "subscribe": "select *, topic_name as topic from mqpg._subscriptions(null)",
    **{f"grant_{privilege}": _RIGHTS.format(privilege) for privilege in ("send", "produce", "receive")},
}
# What alter_…() takes for a setting that is to be null.
_REMOVED: Row = {
    "expire_after": "100 years",
    "filter": "true",
    "lose_after": "0 s",
    "lose_over": 0,
    "max_bytes": 0,
    "message_ttl": "0 s",
    "tags": [],
}
_NEVER = 100 * 365.25 * 86400  # seconds


@comparators.dispatch_for("schema")
def _compare(context: AutogenContext, upgrade: UpgradeOps, schemas: set[str | None]) -> None:
    metadata = [context.metadata] if isinstance(context.metadata, MetaData) else context.metadata or ()
    declared = {identity(one): one for found in metadata for one in declared_in(found)}
    assert context.migration_context is not None
    made = generated(context.migration_context.script, context.opts.get("upgrade_token", "upgrades"))
    connection = context.connection
    if connection is None or not (declared or made):
        return
    if not _is_installed(connection):
        log.warning("mqpg is not installed in this database: its declarations are not compared")
        return
    found = {call: _read(connection, call) for call in _QUERIES}
    order = list(_QUERIES)
    for (call, key), one in sorted(declared.items(), key=lambda item: order.index(item[0][0])):
        row = found[call].get(key)
        upgrade.ops.extend(_create(one) if row is None else _alter(connection, one, row))
    for call, key in sorted(made - declared.keys(), key=lambda thing: (-order.index(thing[0]), thing[1])):
        if key in found[call]:
            upgrade.ops.extend(_take_back(connection, call, key, found[call][key]))


def _is_installed(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql" and bool(
        connection.scalar(text("select to_regnamespace('mqpg') is not null"))
    )


def _read(connection: Connection, call: str) -> dict[tuple[str, ...], Row]:
    """What the broker has of the kind that `call` makes, by the names that it was given."""
    query = f"select cast(row_to_json(found) as text) from ({_QUERIES[call]}) as found"
    rows = [json.loads(row) for row in _scalars(connection, query, "declarations cannot be compared with the broker")]
    return {tuple(row[name] for name in CALLS[call].keys): row for row in rows}


def _create(declared: Declaration) -> Iterator[MigrateOperation]:
    """The call that makes it, and a second one for settings that only alter_…() takes."""
    call, key = identity(declared)
    changed = {name: value for name, value in settings(declared).items() if value != _DEFAULTS[call][name]}
    options = CALLS[call].options
    yield directive(call, *key, **{name: changed.pop(name) for name in options if name in changed})
    if changed:
        yield directive(_ALTERS[call], *key, back=Nothing(), **changed)


def _alter(connection: Connection, declared: Declaration, row: Row) -> Iterator[MigrateOperation]:
    """The call that changes what differs, whose reverse puts the old values back."""
    call, key = identity(declared)
    wanted = settings(declared)
    # Where a subscription started is past.
    names = [name for name in _differing(connection, row, wanted) if name != "start"]
    if not names:
        return
    what = f"{type(declared).__name__} {', '.join(key)}"
    for name in names:
        _require_possible(f"{what}: {name}", name, CALLS[_ALTERS[call]].options, row[name], wanted[name])
    if "checker" in names or "checker_target" in names:
        names = sorted({*names, "checker", "checker_target"}, key=list(wanted).index)
    old = {name: _settable(name, row[name]) for name in names if name != "queues"}
    back: MigrateOperation = Nothing(f"{what} keeps its queues: they cannot be taken away")
    if old:
        back = directive(_ALTERS[call], *key, **old)
    yield directive(_ALTERS[call], *key, back=back, **{name: _settable(name, wanted[name]) for name in names})


def _settable(name: str, value: Any) -> Any:
    return _REMOVED.get(name) if value is None else value


def _require_possible(what: str, name: str, options: tuple[str, ...], has: Any, wanted: Any) -> None:
    if name == "queues":
        possible = wanted > has and wanted % has == 0
    elif name == "mode":
        possible = {has, wanted} == {"exclusive", "shared"}
    else:
        possible = name in options
    if not possible:
        raise CommandError(f"{what} is {has!r} at the broker, and cannot change to {wanted!r}")


def _take_back(connection: Connection, call: str, key: tuple[str, ...], row: Row) -> Iterator[MigrateOperation]:
    """The reverse of `call`, whose own reverse makes the thing again as it is now."""
    if call == "create_topic":
        log.warning("topic %s is no longer declared; it is only dropped by hand, with op.mqpg_drop_topic", key[0])
        return
    undo = CALLS[call].undo
    assert undo is not None
    changed = {name: row[name] for name in _differing(connection, row, _DEFAULTS.get(call, {}))}
    yield directive(undo, *key, back=directive(call, *key, **changed))


def _differing(connection: Connection, row: Row, wanted: Row) -> list[str]:
    """The settings that the broker has otherwise; one of an older release may not tell all."""
    return [
        name
        for name, value in wanted.items()
        if name in row and _canonical(connection, name, row[name]) != _canonical(connection, name, value)
    ]


def _canonical(connection: Connection, name: str, value: Any) -> Any:
    """A setting in the one form in which equal ones are equal; None for what removes it."""
    value = given(name, value)
    if name == "tags":
        return sorted(set(value or ())) or None
    if not value or not (name in SPANS or name == "filter"):
        return value or None
    if name == "filter":
        path = _evaluated(connection, name, value, "cast(cast({} as jsonpath) as text)")
        return path if path != "true" else None
    seconds = float(_evaluated(connection, name, value, "extract(epoch from cast({} as interval))"))
    return seconds if seconds and seconds < _NEVER else None


def _evaluated(connection: Connection, name: str, value: Any, expression: str) -> Any:
    return _scalars(connection, f"select {expression.format(literal(value))}", f"{name} is declared as {value!r}")[0]


def _scalars(connection: Connection, query: str, what: str) -> Sequence[Any]:
    try:
        return connection.scalars(text(query.replace(":", r"\:"))).all()
    except DBAPIError as error:
        raise CommandError(f"{what}: {error.orig}") from error
