"""What is tried: a consumer or a producer of an application, by its `module:name`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from mqpg.application import AnyConsumer
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.values.errors import ConfigurationError

__all__ = ["describe", "parameters"]


def parameters(function: Any) -> list[str]:
    """The names of the parameters that a function requires."""
    found = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in found if one.kind in positional and one.default is inspect.Parameter.empty]


def describe(found: Any, target: str) -> dict[str, Any]:
    """Say what a target is and what it needs.

    `kind` is consumer or producer. A consumer has topic, group, where and database, which is the kind of its
    own database or None. Raises ConfigurationError if the target is neither, or its database cannot be
    replaced by a scratch one.
    """
    if isinstance(found, AnyConsumer):
        options = found.options
        return {
            "kind": "consumer",
            "topic": options.topic,
            "group": options.group,
            "where": options.where,
            "ack": options.ack,
            "attempts": options.max_attempts,
            "database": _database(options.database, target),
            "file": str(_url(options.database).database) if options.database is not None else None,
        }
    if not callable(found):
        raise ConfigurationError(f"{target} is a {type(found).__name__}: a consumer or a function is needed")
    wanted = parameters(found)
    if len(wanted) > 1:
        raise ConfigurationError(
            f"{target} takes {', '.join(wanted)}: a producer takes the client, `producer`, or nothing"
        )
    return {"kind": "producer", "wants": "producer" if wanted == ["producer"] else "mq" if wanted else ""}


def _url(given: Any) -> URL:
    return to_sqlalchemy(getattr(given, "url", given))


def _database(given: Any, target: str) -> str | None:
    if given is None:
        return None
    url = _url(given)
    kind = url.get_backend_name()
    if kind == "sqlite" and not _is_below_here(url.database):
        raise ConfigurationError(
            f"{target} keeps its effect in {url.database or ':memory:'}, which is no scratch database: "
            "give a relative path, for instance sqlite:///shop.db"
        )
    if kind not in ("postgresql", "sqlite"):
        raise ConfigurationError(f"{target} keeps its effect in {kind}: only PostgreSQL and SQLite can be tried")
    return kind


def _is_below_here(path: str | None) -> bool:
    """Whether this is a file below the working directory. A URI of SQLite may name any file."""
    if not path or path == ":memory:" or path.startswith("file:"):
        return False
    return not Path(path).is_absolute() and ".." not in Path(path).parts
