"""The calls of the SQL API as statements, built from their signatures.

Every value is cast to the declared type on the server. Therefore any driver of SQLAlchemy can send
it as text, and overloads and nulls cause no ambiguity.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mqpg.values.arguments import interval, listed

if TYPE_CHECKING:
    from sqlalchemy import TextClause

__all__ = ["DELIVERY", "Statement", "function", "statement"]

# What Message._from_row takes, in its order.
DELIVERY = (
    "message_id, topic, queue_id, queue_offset, key, tag, cast(headers as text), cast(payload as text), "
    "born_at, attempt, receipt"
)


@dataclass(frozen=True)
class Statement:
    """One statement, with parameters written as `%(name)s`.

    `reads` says that it changes nothing, or that its outcome need not be known. `long` says that it
    works through all that has accumulated, however much that is. `arguments` are names and types.
    """

    text: str
    reads: bool = False
    long: bool = False
    arguments: tuple[tuple[str, str], ...] = ()

    @cached_property
    def query(self) -> bytes:
        """For psycopg."""
        return self.text.encode()

    @cached_property
    def clause(self) -> TextClause:
        """For SQLAlchemy, which is loaded by now if the caller's connection is its own."""
        from sqlalchemy import text

        return text(re.sub(r"%\((\w+)\)s", r":\1", self.text))

    def values(self, *given: Any) -> dict[str, Any]:
        """The arguments, given in their order, by name: time spans and lists as the server takes them."""
        pairs = zip(self.arguments, given, strict=True)
        return {name: _CONVERT.get(kind, _as_it_is)(value, name) for (name, kind), value in pairs}


def _as_it_is(value: Any, name: str) -> Any:
    return value


_CONVERT: dict[str, Callable[[Any, str], Any]] = {"interval": interval, "bigint[]": listed, "text[]": listed}


_CASTS = re.compile(r"cast\(%\((\w+)\)s as ([^)]+)\)")


def statement(sql: str) -> Statement:
    """The query that `sql` says, on one line. It only reads."""
    return Statement(" ".join(sql.split()), reads=True, arguments=tuple(_CASTS.findall(sql)))


def function(
    name: str,
    arguments: str = "",
    columns: str | None = None,
    *,
    reads: bool = False,
    long: bool = False,
    lock_timeout: str | None = None,
) -> Statement:
    """A call of mqpg.`name`.

    `arguments` are names and types, such as "topic text, queues int". `columns` are those to select
    from a function that returns rows. `lock_timeout` is that of this call alone, such as "100ms".
    """
    value = "cast(%({})s as {})"
    if lock_timeout is not None:
        # A statement of its own would cost a round trip. The arguments depend on the setting, so
        # that the server makes the setting first.
        value = f"case when s.lock_timeout is not null then {value} end"
    pairs = [_pair(argument) for argument in arguments.split(",")] if arguments else []
    call = f"mqpg.{name}({', '.join(f'{argument} => {value.format(argument, kind)}' for argument, kind in pairs)})"
    text = f"select {columns} from {call}" if columns else f"select {call}"
    if lock_timeout is not None:
        setting = f"(select set_config('lock_timeout', '{lock_timeout}', true) as lock_timeout) s"
        text = f"select {columns} from {setting}, {call}" if columns else f"{text} from {setting}"
    return Statement(text, reads, long, tuple(pairs))


def _pair(argument: str) -> tuple[str, str]:
    name, _, kind = argument.strip().partition(" ")
    return name, kind
