"""What consumers of both libraries share: their options and the shape of their handlers."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mqpg.dsn import to_sqlalchemy
from mqpg.errors import ConfigurationError
from mqpg.message import Interval

__all__ = ["Options", "Second", "second_parameter"]

EFFECTS = ("broker", "database", "external")
MODES = ("exclusive", "shared", "pinned", "broadcast")
ACKS = ("each", "delivery", "receive")

# What a handler gets as its second argument.
Second = str
DRIVER, SQLALCHEMY, SESSION, NOTHING = "driver", "sqlalchemy", "session", "nothing"


@dataclass(frozen=True, slots=True)
class Options:
    """What a consumer reads and how; see mqpg.consumer."""

    topic: str
    group: str
    database: Any = None
    effect: str | None = None
    mode: str | None = None
    batch: bool = False
    max_messages: int = 100
    lease: Interval = 30.0
    consumer: str | None = None
    queues: Sequence[int] | None = None
    journal: bool = False
    ack: str = "each"
    concurrency: int = 1
    timeout: timedelta | float | None = None
    middleware: Sequence[Callable[..., Any]] = ()
    session: bool = False
    subscribe: bool = True
    start: str = "earliest"
    filter: str | None = None
    tags: Sequence[str] | None = None
    max_attempts: int = 16
    retry_delay: Interval = 10.0
    on_failure: str = "skip"

    def __post_init__(self) -> None:
        _one_of("effect", self.effect, (None, *EFFECTS))
        _one_of("mode", self.mode, (None, *MODES))
        _one_of("ack", self.ack, ACKS)
        if self.database is not None and self.mode not in (None, "pinned"):
            raise ConfigurationError(f"a consumer with a database of its own has mode 'pinned', not {self.mode!r}")
        if (self.where == "database") != (self.database is not None):
            raise ConfigurationError(f"effect={self.where!r} and database={self.database!r} do not go together")
        if self.where != "external" and self.ack != "each":
            raise ConfigurationError(f"ack={self.ack!r} is for effect='external'; else ack and effect are one")
        if self.where == "external" and (self.journal or self.session):
            raise ConfigurationError("effect='external' has no transaction for a journal or a session")
        if self.concurrency < 1:
            raise ConfigurationError(f"concurrency must be 1 or more, not {self.concurrency}")
        if self.time_limit is not None and self.time_limit <= 0:
            raise ConfigurationError(f"timeout must be more than 0 seconds, not {self.timeout}")

    @property
    def where(self) -> str:
        """Where the effect is: broker (C1), database (C2) or external (C3)."""
        return self.effect or ("broker" if self.database is None else "database")

    @property
    def wanted_mode(self) -> str:
        return self.mode or ("pinned" if self.where == "database" else "exclusive")

    @property
    def time_limit(self) -> float | None:
        """`timeout` in seconds."""
        return self.timeout.total_seconds() if isinstance(self.timeout, timedelta) else self.timeout

    @property
    def name(self) -> str:
        """The member's name: given, else MQPG_CONSUMER, else the host's. Queues stay with it (mode pinned).

        With a database of its own that is part of the default: two processes of one host that keep their offsets
        in different databases must never take each other's queues, for each would apply what the other has.
        """
        if self.consumer:
            return self.consumer
        name = os.environ.get("MQPG_CONSUMER") or ".".join(filter(None, (socket.gethostname()[:100], self._place())))
        return re.sub(r"^[^A-Za-z0-9]", "x", re.sub(r"[^A-Za-z0-9_.-]", "-", name))[:127]

    def _place(self) -> str:
        """Eight letters for the database of the effect, the same after a restart; nothing where it is the broker's."""
        if self.database is None:
            return ""
        url = to_sqlalchemy(getattr(self.database, "url", self.database))
        database = url.database
        if url.get_backend_name() == "sqlite" and database:
            database = os.path.abspath(database)
        place = (url.get_backend_name(), url.host, url.port, sorted(url.query.items()), database)
        return hashlib.sha256(repr(place).encode()).hexdigest()[:8]


def _one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed if choice is not None)
        raise ConfigurationError(f"{name} must be one of {choices}, not {value!r}")


def second_parameter(handler: Callable[..., Any], options: Options) -> Second:
    """What the handler's second parameter takes, by `session=`, its annotation, or where the effect is.

    Raises ConfigurationError for a handler that cannot be called with what there is.
    """
    parameters = _positional(handler)
    name = getattr(handler, "__name__", repr(handler))
    wanted = 1 if len(parameters) == 1 else 2
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if not parameters or len(required) > 2:
        raise ConfigurationError(f"{name} must take a message, and a connection if it wants one")
    if options.where == "external":
        if len(required) > 1:
            raise ConfigurationError(f"{name} must take the message alone: effect='external' has no transaction")
        return NOTHING
    if wanted == 1 and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        return NOTHING
    if options.session:
        return SESSION
    return _by_annotation(parameters[-1].annotation) or (DRIVER if options.where == "broker" else SQLALCHEMY)


def _positional(handler: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(handler, eval_str=True)
    except NameError:  # annotations of names that only exist inside a function
        signature = inspect.signature(handler)
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return [parameter for parameter in signature.parameters.values() if parameter.kind in kinds]


def _by_annotation(annotation: Any) -> Second | None:
    module = getattr(annotation, "__module__", "") or ""
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if name.rpartition(".")[2] in ("Session", "AsyncSession"):
        return SESSION
    return SQLALCHEMY if module.startswith("sqlalchemy") else None
