"""What a handler takes: a message alone, or a message and a connection of some kind."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal

from mqpg.handlers.options import ConsumerOptions
from mqpg.values.errors import ConfigurationError
from mqpg.values.messages import Message

__all__ = ["SecondParameter", "message_place", "positional", "second_parameter"]

SecondParameter = Literal["driver", "sqlalchemy", "session", "nothing"]
"""The second argument of a handler: psycopg's connection, SQLAlchemy's, a session, or none."""


def second_parameter(handler: Callable[..., Any], options: ConsumerOptions) -> SecondParameter:
    """Choose by `session=`, by the annotation, or by where the effect is.

    Raises ConfigurationError for a handler that cannot be called with a message and a connection.
    """
    parameters, place = positional(handler), message_place(handler)
    if place is not None:
        del parameters[place]
    name = getattr(handler, "__name__", repr(handler))
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if not parameters or len(required) > 2:
        raise ConfigurationError(
            f"{name} must take a message, and at most one more argument, the connection; a payload with a type may "
            "be followed by a parameter that is annotated Message"
        )
    if options.where == "external":
        if len(required) > 1:
            raise ConfigurationError(f"{name} must take the message alone: effect='external' has no transaction")
        return "nothing"
    if len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        return "nothing"
    if options.session:
        return "session"
    return _by_annotation(parameters[-1].annotation) or ("driver" if options.where == "broker" else "sqlalchemy")


def message_place(handler: Callable[..., Any]) -> int | None:
    """Which parameter gets the message (or messages) beside the payload: one behind the first, annotated Message."""
    behind = enumerate(positional(handler)[1:], 1)
    return next((place for place, one in behind if _names_message(one.annotation)), None)


def _names_message(annotation: Any) -> bool:
    if isinstance(annotation, str):  # it could not be looked up
        return re.search(r"\bMessage\b", annotation) is not None
    is_list = typing.get_origin(annotation) in (list, Sequence)
    return annotation is Message or (is_list and typing.get_args(annotation) == (Message,))


def positional(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that a call without names fills, with their annotations as types."""
    try:
        signature = inspect.signature(handler, eval_str=True)
    except NameError:  # annotations of names that exist only inside a function
        signature = inspect.signature(handler)
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return [parameter for parameter in signature.parameters.values() if parameter.kind in kinds]


def _by_annotation(annotation: Any) -> SecondParameter | None:
    module = getattr(annotation, "__module__", "") or ""
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if name.rpartition(".")[2] in ("Session", "AsyncSession"):
        return "session"
    return "sqlalchemy" if module.startswith("sqlalchemy") else None
