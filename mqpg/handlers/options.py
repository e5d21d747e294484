"""What a consumer reads and how: the arguments of `mqpg.consumer`."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, get_args

from mqpg.connection.dsn import to_sqlalchemy
from mqpg.values.arguments import LONGEST_WAIT, interval, listed, position, schema_of, text_of, whole
from mqpg.values.choices import AckTiming, Effect, Mode, OnFailure
from mqpg.values.errors import ConfigurationError, InvalidArgument, shown
from mqpg.values.messages import RETRY_LANE, Interval

__all__ = ["ConsumerOptions"]


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of one consumer; `mqpg.consumer` explains each of them.

    Raises ConfigurationError.
    """

    topic: str
    group: str
    database: Any = None
    schema: str | None = None
    create_tables: bool = True
    effect: Effect | None = None
    mode: Mode | None = None
    batch: bool = False
    max_messages: int = 100
    lease: Interval = 30.0
    consumer: str | None = None
    queues: Sequence[int] | None = None
    journal: bool = False
    ack: AckTiming = "each"
    concurrency: int = 1
    timeout: timedelta | float | None = None
    middleware: Sequence[Callable[..., Any]] = ()
    session: bool = False
    subscribe: bool = True
    start: str | datetime = "earliest"
    filter: str | None = None
    tags: Sequence[str] | None = None
    max_attempts: int = 16
    retry_delay: Interval = 10.0
    on_failure: OnFailure = "skip"

    def __post_init__(self) -> None:
        _require_choice("effect", self.effect, (None, *get_args(Effect)))
        _require_choice("mode", self.mode, (None, *get_args(Mode)))
        _require_choice("ack", self.ack, get_args(AckTiming))
        _require_choice("on_failure", self.on_failure, get_args(OnFailure))
        if self.database is not None and self.mode not in (None, "pinned"):
            raise ConfigurationError(f"mode must be 'pinned' where database is given, not {shown(self.mode)}")
        if (self.where == "database") != (self.database is not None):
            raise ConfigurationError(
                f"effect={self.where!r} and database={'…' if self.database else None} do not go together"
            )
        if self.where != "external" and self.ack != "each":
            raise ConfigurationError(f"ack={self.ack!r} needs effect='external', not {self.where!r}")
        if self.where == "external" and (self.journal or self.session):
            raise ConfigurationError("journal and session need a transaction, which effect='external' does not have")
        if self.where == "external" and (self.schema is not None or not self.create_tables):
            raise ConfigurationError("schema and create_tables are for tables, which effect='external' does not have")
        try:
            self._require_texts()
            self._require_lists()
            self._require_numbers()
        except InvalidArgument as error:
            raise ConfigurationError(str(error)) from None

    def _require_texts(self) -> None:
        for name in ("topic", "group"):
            text_of(getattr(self, name), name)
        schema_of(self.schema)
        for name in ("consumer", "filter"):
            if getattr(self, name) is not None:
                text_of(getattr(self, name), name)
        position(self.start, "start", offset=False)

    def _require_lists(self) -> None:
        for name in ("tags", "queues", "middleware"):
            # A copy, because an iterator can be read once, and the caller may change a list later.
            copy = listed(getattr(self, name), name)
            object.__setattr__(self, name, None if copy is None else tuple(copy))
        for place, tag in enumerate(self.tags or ()):
            text_of(tag, f"tags[{place}]")
        for place, queue in enumerate(self.queues or ()):
            whole(queue, f"queues[{place}]", RETRY_LANE)
        for place, one in enumerate(self.middleware or ()):
            if not callable(one):
                raise InvalidArgument(f"middleware[{place}] must be callable, not {shown(one)}")

    def _require_numbers(self) -> None:
        whole(self.max_messages, "max_messages", 1, 10000)
        whole(self.max_attempts, "max_attempts", 1, 10000)
        whole(self.concurrency, "concurrency", 1)
        interval(self.lease, "lease")
        interval(self.retry_delay, "retry_delay")
        if self.timeout is not None and not (_is_length(self.timeout) and (self.time_limit or 0) > 0):
            raise InvalidArgument(
                f"timeout must be a number of seconds or a timedelta, more than 0, not {shown(self.timeout)}"
            )

    @property
    def where(self) -> Effect:
        """Where the effect is: broker (C1), database (C2) or external (C3)."""
        return self.effect or ("broker" if self.database is None else "database")

    @property
    def wanted_mode(self) -> Mode:
        """The mode of a subscription that this consumer creates."""
        return self.mode or ("pinned" if self.where == "database" else "exclusive")

    @property
    def of_subscription(self) -> dict[str, Any]:
        """The options that are for a new subscription and can change later, by the names of `alter_subscription`."""
        tags = None if self.tags is None else list(self.tags)
        names = ("filter", "max_attempts", "retry_delay", "on_failure")
        return {"tags": tags, **{name: getattr(self, name) for name in names}}

    @property
    def time_limit(self) -> float | None:
        """`timeout` in seconds, which no lock of Python can exceed. None: no limit."""
        limit = self.timeout.total_seconds() if isinstance(self.timeout, timedelta) else self.timeout
        return None if limit is None else min(limit, LONGEST_WAIT)

    @property
    def is_named(self) -> bool:
        """Whether its name is given, and not the default one."""
        return bool(self.consumer or os.environ.get("MQPG_CONSUMER"))

    @property
    def name(self) -> str:
        """The consumer's name: the given one, or MQPG_CONSUMER, or the host's name.

        In mode pinned the queues stay with this name.

        The default name of a consumer with its own database includes that database. Two processes
        of one host that keep their offsets in different databases must not take over each other's
        queues, because each would apply again what the other one has applied.
        """
        if self.consumer:
            return self.consumer
        host = socket.gethostname()[:100]
        name = os.environ.get("MQPG_CONSUMER") or ".".join(filter(None, (host, self._database_mark())))
        return re.sub(r"^[^A-Za-z0-9]", "x", re.sub(r"[^A-Za-z0-9_.-]", "-", name))[:127]

    def _database_mark(self) -> str:
        """Eight letters for the database of the effect, the same after a restart.

        Empty for the broker's database.
        """
        if self.database is None:
            return ""
        url = to_sqlalchemy(getattr(self.database, "url", self.database))
        database = url.database
        if url.get_backend_name() == "sqlite" and database:
            database = os.path.abspath(database)
        place: tuple[Any, ...] = (url.get_backend_name(), url.host, url.port, sorted(url.query.items()), database)
        if self.schema is not None:
            place = (*place, self.schema)
        return hashlib.sha256(repr(place).encode()).hexdigest()[:8]


def _is_length(value: object) -> bool:
    return isinstance(value, (int, float, timedelta)) and not isinstance(value, bool)


def _require_choice(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed if choice is not None)
        raise ConfigurationError(f"{name} must be one of {choices}, not {shown(value)}")
