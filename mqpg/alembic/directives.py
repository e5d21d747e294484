"""`op.mqpg_create_topic(…)` and the like: each is one call of the SQL API.

The arguments are those of the SQL function, under the same names and in the same order. Online and
offline (`--sql`) the broker gets the same text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from alembic.autogenerate import renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import MigrateOperation, Operations
from alembic.util import CommandError
from sqlalchemy import text

from mqpg.values.arguments import interval, listed, position

__all__ = ["CALLS", "SPANS", "Call", "Directive", "Nothing", "directive", "given", "literal"]

# The arguments that are time spans.
SPANS = {"check_after", "expire_after", "lose_after", "message_ttl", "retention", "retry_delay"}


@dataclass(frozen=True)
class Call:
    """A function of the SQL API: the arguments that name a thing, the others, and the call that undoes it."""

    name: str
    keys: tuple[str, ...]
    options: tuple[str, ...] = ()
    undo: str | None = None

    @cached_property
    def signature(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature(
            [
                *(inspect.Parameter(name, kind) for name in self.keys),
                *(inspect.Parameter(name, kind, default=None) for name in self.options),
            ]
        )


def _call(name: str, keys: str, options: str = "", undo: str | None = None) -> Call:
    return Call(name, tuple(keys.split()), tuple(options.split()), undo)


_RIGHTS = {"send": "topic role", "produce": "producer_group role", "receive": "consumer_group topic role"}
_GROUP_OPTIONS = "check_after max_checks on_exhausted checker checker_target expire_after max_undecided"

CALLS = {
    call.name: call
    for call in (
        _call("create_topic", "topic", "queues retention kind", undo="drop_topic"),
        _call(
            "alter_topic",
            "topic",
            "retention max_payload message_ttl on_expired lose_after lose_over checksums queues max_bytes",
        ),
        _call("drop_topic", "topic", "force"),
        _call("create_producer_group", "producer_group", _GROUP_OPTIONS, undo="drop_producer_group"),
        _call("alter_producer_group", "producer_group", _GROUP_OPTIONS),
        _call("drop_producer_group", "producer_group"),
        _call(
            "subscribe",
            "consumer_group topic",
            "mode start filter tags max_attempts retry_delay on_failure",
            undo="unsubscribe",
        ),
        _call("alter_subscription", "consumer_group topic", "max_attempts retry_delay filter tags on_failure mode"),
        _call("unsubscribe", "consumer_group topic", "consumer"),
        *(_call(f"grant_{right}", keys, undo=f"revoke_{right}") for right, keys in _RIGHTS.items()),
        *(_call(f"revoke_{right}", keys, undo=f"grant_{right}") for right, keys in _RIGHTS.items()),
    )
}


class Directive(MigrateOperation):
    """One call of the SQL API in a migration. `back` is what a downgrade does instead of the call's own reverse."""

    call: ClassVar[Call]

    def __init__(self, *args: Any, back: MigrateOperation | None = None, **kwargs: Any) -> None:
        bound = self.call.signature.bind(*args, **kwargs).arguments
        self.values = {name: given(name, value) for name, value in bound.items()}
        self.back = back

    @property
    def sql(self) -> str:
        arguments = ", ".join(f"{name} => {literal(value)}" for name, value in self.values.items())
        return f"select mqpg.{self.call.name}({arguments})"

    def reverse(self) -> MigrateOperation:
        if self.back is not None:
            return self.back
        if self.call.undo is None:
            raise ValueError(f"mqpg_{self.call.name} cannot be reversed: the settings before it are not known")
        return directive(self.call.undo, *(self.values[name] for name in self.call.keys), back=self)

    def to_diff_tuple(self) -> tuple[Any, ...]:
        return (f"mqpg_{self.call.name}", self.values)


class Nothing(MigrateOperation):
    """What a downgrade does about something that stays as it is, with the reason as a comment."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason


def literal(value: Any) -> str:
    """A value as SQL text, whatever the settings of the session are."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"cast(array[{', '.join(map(literal, value))}] as text [])"
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'" if "\\" not in quoted else "E'" + quoted.replace("\\", "\\\\") + "'"


def given(name: str, value: Any) -> Any:
    """An argument as it stands in a migration: text, numbers and lists."""
    if name in SPANS:
        span = interval(value, name)
        return span if span is None or span is value else re.sub(r"\.?0+ s$", " s", str(span))
    if name == "tags":
        return listed(value, name)
    return position(value, name, offset=False) if isinstance(value, datetime) else value


def directive(name: str, *args: Any, back: MigrateOperation | None = None, **kwargs: Any) -> Directive:
    """The operation that calls the function `name` of the SQL API."""
    return _OPERATIONS[name](*args, back=back, **kwargs)


def _register(call: Call) -> type[Directive]:
    """Make `op.mqpg_<name>` known to Alembic."""

    def run(cls: type[Directive], operations: Operations, *args: Any, **kwargs: Any) -> None:
        operations.invoke(cls(*args, **kwargs))

    run.__doc__ = f"Call mqpg.{call.name}{call.signature}."
    members: dict[str, Any] = {"call": call, "run": classmethod(run), "__doc__": run.__doc__}
    name = "".join(map(str.capitalize, call.name.split("_")))
    operation = type(f"{name}Op", (Directive,), members)
    register: Callable[[type[Directive]], type[Directive]] = Operations.register_operation(f"mqpg_{call.name}", "run")
    return register(operation)


_OPERATIONS = {name: _register(call) for name, call in CALLS.items()}


@Operations.implementation_for(Directive)
def _run(operations: Operations, operation: Directive) -> None:
    context = operations.migration_context
    if context.dialect.name != "postgresql":
        raise CommandError(f"mqpg_{operation.call.name} needs a broker in PostgreSQL, not {context.dialect.name}")
    if context.as_sql:
        # Not compiled: a dialect would double a backslash and a percent sign that the script has once.
        context.impl.static_output(operation.sql + context.impl.command_terminator)
    else:
        operations.get_bind().execute(text(operation.sql.replace(":", r"\:")))


@renderers.dispatch_for(Directive)
def _render(context: AutogenContext, operation: Directive) -> str:
    keys = operation.call.keys
    values = [repr(v) if name in keys else f"{name}={v!r}" for name, v in operation.values.items()]
    prefix = context.opts["alembic_module_prefix"] or ""
    return f"{prefix}mqpg_{operation.call.name}({', '.join(values)})"


@renderers.dispatch_for(Nothing)
def _render_nothing(context: AutogenContext, operation: Nothing) -> list[str]:
    return [f"# {operation.reason}", "pass"] if operation.reason else []
