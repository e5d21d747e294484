"""What a handler takes: a message alone, or a message and a connection of some kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from mqpg.handlers.options import ConsumerOptions
from mqpg.values.errors import ConfigurationError

__all__ = ["SecondParameter", "positional", "second_parameter"]

SecondParameter = Literal["driver", "sqlalchemy", "session", "nothing"]
"""The second argument of a handler: psycopg's connection, SQLAlchemy's, a session, or none."""


def second_parameter(handler: Callable[..., Any], options: ConsumerOptions) -> SecondParameter:
    """Choose by `session=`, by the annotation, or by where the effect is.

    Raises ConfigurationError for a handler that cannot be called with a message and a connection.
    """
    parameters = positional(handler)
    name = getattr(handler, "__name__", repr(handler))
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if not parameters or len(required) > 2:
        raise ConfigurationError(f"{name} must take a message, and at most one more argument, the connection")
    if options.where == "external":
        if len(required) > 1:
            raise ConfigurationError(f"{name} must take the message alone: effect='external' has no transaction")
        return "nothing"
    if len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        return "nothing"
    if options.session:
        return "session"
    return _by_annotation(parameters[-1].annotation) or ("driver" if options.where == "broker" else "sqlalchemy")


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
