"""Settings from the environment, with the prefix MQPG_. Each of them has a default."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from mqpg.values.errors import ConfigurationError

__all__ = ["Settings", "ledger_url", "ledger_variable", "split_urls"]


_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


def _switch(value: object) -> bool:
    found = _WORDS.get(str(value).lower())
    if found is None:
        raise ValueError(f"must be one of {', '.join(_WORDS)}")
    return found


def _number(
    kind: type[int | float], least: float, most: float = math.inf, *, above: bool = False, optional: bool = False
) -> Callable[[Any], float | None]:
    """Makes what reads a number from `least` to `most`. `above`: not `least` itself. `optional`: "none" is None."""
    allowed = f"must be a {'whole number' if kind is int else 'number'} {'above' if above else 'of at least'} {least:g}"
    allowed += f", at most {most:g}" if most < math.inf else ""
    allowed += ", or none" if optional else ""

    def read(value: Any) -> float | None:
        if optional and (value is None or str(value).lower() == "none"):
            return None
        try:
            number = kind(value)
            is_same = isinstance(value, str) or number == value
        except (TypeError, ValueError, OverflowError):
            raise ValueError(allowed) from None
        if not (is_same and least <= number <= most) or (above and number == least):
            raise ValueError(allowed)
        return number

    return read


def _setting(default: Any, read: Callable[[Any], Any]) -> Any:
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a client connects. All times are seconds.

    The variable of a setting is its name in capitals behind MQPG_, such as MQPG_POOL_MAX_SIZE.

    Attributes:
        database_url: The broker's DSN, from MQPG_DATABASE_URL or else DATABASE_URL. None: another
            source, see `mqpg.embedded.locate.resolve`.
        application_name: The name that pg_stat_activity shows.
        pool_min_size: How many connections the pool keeps open, 0 or more.
        pool_max_size: How many connections the pool opens at most, 1 or more. There may be one more
            while blocks of `transaction` and handlers hold all of them.
        pool_timeout: How long a call waits for a connection of the pool.
        connect_timeout: How long one attempt to connect may take, 1 or more.
        call_timeout: How long a call waits for a server that says nothing, more than 0. The call
            then closes its connection and raises OutcomeUnknown, or ConnectionFailed if it only
            reads. Calls that work through all that has accumulated, such as `append`, wait ten
            times as long. None: for ever (MQPG_CALL_TIMEOUT=none).
        retry_timeout: How long a call that may safely be repeated is repeated while the server is
            away. 0: it is repeated once.
        prepare_threshold: After how many executions psycopg prepares a statement. None: never, as a
            pooler in transaction mode needs it (MQPG_PREPARE_THRESHOLD=none).
        listen: Whether the appender's notifications wake waiting calls. False: the client only
            polls. A pooler in transaction mode loses notifications, and the client notices that by
            itself.
        batching: Whether calls of `send`, `prepare`, `commit` and `rollback` without `conn=` that
            are made at the same time become one statement and one commit. Each caller gets its own
            answer. False: every call is a statement of its own.
        linger: How long the first call of a batch waits for others. 0: it does not wait, so calls
            are only batched while the one before them is under way.
        poll_interval: The longest pause between two looks for new ticks while no notifications are
            known to arrive, 0.01 or more.
    """

    database_url: str | None = field(default=None, repr=False, metadata={"read": _text})  # it may have a password
    application_name: str = _setting("mqpg", _text)
    pool_min_size: int = _setting(0, _number(int, 0))
    pool_max_size: int = _setting(10, _number(int, 1))
    pool_timeout: float = _setting(30.0, _number(float, 0, above=True))
    connect_timeout: int = _setting(10, _number(int, 1))
    call_timeout: float | None = _setting(30.0, _number(float, 0, above=True, optional=True))
    retry_timeout: float = _setting(15.0, _number(float, 0))
    prepare_threshold: int | None = _setting(5, _number(int, 0, optional=True))
    listen: bool = _setting(True, _switch)
    batching: bool = _setting(True, _switch)
    linger: float = _setting(0.0, _number(float, 0, 10))
    poll_interval: float = _setting(1.0, _number(float, 0.01))

    @classmethod
    def read(cls, **given: Any) -> Settings:
        """Read the settings.

        Args:
            **given: Settings that do not come from the environment.

        Returns:
            The settings.

        Raises:
            ConfigurationError: A setting is unknown or not allowed. The message names it.
        """
        known = {one.name: one.metadata["read"] for one in fields(cls)}
        if unknown := given.keys() - known.keys():
            raise ConfigurationError(f"unknown settings: {', '.join(sorted(unknown))}")
        found = {name: os.environ[f"MQPG_{name.upper()}"] for name in known if f"MQPG_{name.upper()}" in os.environ}
        if "DATABASE_URL" in os.environ:
            found.setdefault("database_url", os.environ["DATABASE_URL"])
        values, wrong = {}, []
        for name, value in (found | given).items():
            try:
                values[name] = known[name](value)
            except ValueError as error:
                wrong.append(f"{name}: {error}")
        if wrong:
            raise ConfigurationError(f"settings (MQPG_…): {'; '.join(wrong)}")
        return cls(**values)


def ledger_variable(name: str) -> str:
    """Name the variable that holds the SQLAlchemy URL of a ledger.

    Args:
        name: The ledger's name, such as "shop.eu".

    Returns:
        The variable's name, such as "MQPG_LEDGER_SHOP_EU".
    """
    return "MQPG_LEDGER_" + re.sub(r"[-.]", "_", name).upper()


def split_urls(urls: str) -> list[str]:
    """Split the URLs of one name, of a variable or of the command line, at the blanks between them.

    Args:
        urls: The URLs, which may have blanks in a path.

    Returns:
        The URLs.
    """
    return re.split(r"\s+(?=[\w+]+://)", urls.strip())


def ledger_url(name: str) -> str | None:
    """Look up the SQLAlchemy URL of a ledger in the environment.

    Args:
        name: The ledger's name, which is the `checker_target` of a producer group.

    Returns:
        The URL, or None if the variable is not set.
    """
    return os.environ.get(ledger_variable(name))
