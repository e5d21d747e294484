"""The consumers of an application, by the module that they are in."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from typing import Any

from mqpg._async.consumer.consumer import AsyncConsumer
from mqpg._sync.consumer.consumer import Consumer
from mqpg.handlers import payload
from mqpg.values.errors import ConfigurationError

__all__ = ["AnyConsumer", "find_consumers", "load", "payload_type"]

logger = logging.getLogger("mqpg")

AnyConsumer = Consumer | AsyncConsumer


def load(target: str, folder: str = "") -> Any:
    """Import `module:name`, also from `folder`, by default the working directory.

    Raises ConfigurationError if the module cannot be imported, or has no such name.
    """
    module_name, separator, name = target.partition(":")
    if not (separator and module_name and name):
        raise ConfigurationError(f"the target must be module:name, for instance shop.billing:bill, not {target!r}")
    found = _import(module_name, folder)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    return found


def find_consumers(target: str) -> dict[str, AnyConsumer]:
    """Import the consumer `module:name`, or all consumers that have a name in a module.

    Raises ConfigurationError if the module cannot be imported, or there is no consumer.
    """
    if ":" in target:
        found = load(target)
        if not isinstance(found, AnyConsumer):
            raise ConfigurationError(
                f"{target} is a {type(found).__name__} and not a consumer: decorate it with @mqpg.consumer"
            )
        return {target: found}
    names = vars(_import(target, "")).items()
    by_id = {id(one): (f"{target}:{name}", one) for name, one in reversed(names) if isinstance(one, AnyConsumer)}
    if not by_id:
        raise ConfigurationError(f"module {target!r} has no consumer: decorate a function with @mqpg.consumer")
    return dict(reversed(by_id.values()))


def payload_type(consumer: AnyConsumer) -> Any:
    """The type that a consumer reads payloads as. None: its handler takes the message itself."""
    return payload.payload_type(consumer.handler, consumer.options)


def _import(name: str, folder: str) -> Any:
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a program that ends at its import would end this one with its status
        logger.debug("import failed", exc_info=True)
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if "importlib" in place.filename else f" ({place.filename}:{place.lineno})"
        raise ConfigurationError(f"cannot import {name!r}: {type(error).__name__}: {error}{where}") from error
