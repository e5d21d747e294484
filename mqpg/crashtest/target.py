"""What is tried: a consumer or a producer of an application, by its `module:name`."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from typing import Any

from sqlalchemy import URL

import mqpg
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.values.errors import ConfigurationError

__all__ = ["AnyConsumer", "describe", "load", "parameters"]

AnyConsumer = mqpg.Consumer | mqpg.AsyncConsumer


def load(target: str, folder: str) -> Any:
    """Import `module:name`, also from a folder."""
    module_name, separator, name = target.partition(":")
    if not (separator and module_name and name):
        raise ConfigurationError(f"the target must be module:name, for instance shop.billing:bill, not {target!r}")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if "importlib" in place.filename else f" ({Path(place.filename).name}:{place.lineno})"
        raise ConfigurationError(f"cannot import {module_name!r}: {type(error).__name__}: {error}{where}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    return found


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
    if kind == "sqlite" and (not url.database or Path(url.database).is_absolute() or url.database == ":memory:"):
        raise ConfigurationError(
            f"{target} keeps its effect in {url.database or ':memory:'}, which is no scratch database: "
            "give a relative path, for instance sqlite:///shop.db"
        )
    if kind not in ("postgresql", "sqlite"):
        raise ConfigurationError(f"{target} keeps its effect in {kind}: only PostgreSQL and SQLite can be tried")
    return kind
