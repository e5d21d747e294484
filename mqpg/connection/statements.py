"""The calls of the SQL API as statements, built from their signatures.

Every value is cast to the declared type on the server. Therefore any driver of SQLAlchemy can send
it as text, and overloads and nulls cause no ambiguity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import TextClause

__all__ = ["DELIVERY", "Statement", "function", "hasty", "statement", "with_array_literals"]

# What Message.from_row takes, in its order.
DELIVERY = (
    "message_id, topic, queue_id, queue_offset, key, tag, cast(headers as text), cast(payload as text), "
    "born_at, attempt, receipt"
)


@dataclass(frozen=True)
class Statement:
    """One statement, with parameters written as `%(name)s`.

    `reads` says that it changes nothing. `long` says that it works through all that has
    accumulated, however much that is.
    """

    text: str
    reads: bool = False
    long: bool = False

    @cached_property
    def query(self) -> bytes:
        """For psycopg."""
        return self.text.encode()

    @cached_property
    def clause(self) -> TextClause:
        """For SQLAlchemy, which is loaded by now if the caller's connection is its own."""
        from sqlalchemy import text

        return text(re.sub(r"%\((\w+)\)s", r":\1", self.text))


def statement(sql: str) -> Statement:
    """The query that `sql` says, on one line. It only reads."""
    return Statement(" ".join(sql.split()), reads=True)


def function(
    name: str, arguments: str = "", columns: str | None = None, *, reads: bool = False, long: bool = False
) -> Statement:
    """A call of mqpg.`name`.

    `arguments` are names and types, such as "topic text, queues int". `columns` are those to select
    from a function that returns rows.
    """
    pairs = [argument.strip().split(" ", 1) for argument in arguments.split(",")] if arguments else []
    passed = ", ".join(f"{argument} => cast(%({argument})s as {kind})" for argument, kind in pairs)
    call = f"mqpg.{name}({passed})"
    return Statement(f"select {columns} from {call}" if columns else f"select {call}", reads, long)


def hasty(call: Statement) -> Statement:
    """The same call of a function of handles, which fails where it waits for a lock for 0.1 s.

    A lock_timeout of the statement alone would cost a round trip. The argument depends on the
    setting, so that the setting comes first.
    """
    text, found = re.subn(
        r"(handles?) => cast\((%\(\w+\)s) as (text(?:\[\])?)\)",
        r"\1 => case when s.t is not null then cast(\2 as \3) end",
        call.text,
    )
    assert found == 1
    setting = "(select set_config('lock_timeout', '100ms', true) as t) s"
    if " from " in text:
        return Statement(text.replace(" from ", f" from {setting} cross join lateral "), call.reads, call.long)
    return Statement(f"{text} from {setting}", call.reads, call.long)


def with_array_literals(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values for psycopg, lists of text as array literals.

    psycopg quotes the elements one by one with a regular expression, which costs ten times as much
    for JSON. Lists of anything else stay as they are.
    """
    return {name: _literal(value) if isinstance(value, list) else value for name, value in values.items()}


def _literal(texts: list[Any]) -> Any:
    for text in texts:
        if text is not None and type(text) is not str:
            return texts
    return "{" + ",".join(["NULL" if text is None else _quoted(text) for text in texts]) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
