"""Settings from the environment, with the prefix MQPG_. Each of them has a default."""

from __future__ import annotations

import os
import re
from typing import Any

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from mqpg.values.errors import ConfigurationError

__all__ = ["Settings", "ledger_url", "ledger_variable", "split_urls"]


class Settings(BaseSettings):
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

    model_config = SettingsConfigDict(
        env_prefix="MQPG_", extra="ignore", populate_by_name=True, env_parse_none_str="none"
    )

    # A printed Settings shows no password.
    database_url: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("MQPG_DATABASE_URL", "DATABASE_URL")
    )
    application_name: str = "mqpg"
    pool_min_size: int = Field(default=0, ge=0)
    pool_max_size: int = Field(default=10, ge=1)
    pool_timeout: float = Field(default=30.0, gt=0)
    connect_timeout: int = Field(default=10, ge=1)
    call_timeout: float | None = Field(default=30.0, gt=0)
    retry_timeout: float = Field(default=15.0, ge=0)
    prepare_threshold: int | None = 5
    listen: bool = True
    batching: bool = True
    linger: float = Field(default=0.0, ge=0, le=10)
    poll_interval: float = Field(default=1.0, ge=0.01)

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
        unknown = given.keys() - cls.model_fields.keys()
        if unknown:
            raise ConfigurationError(f"unknown settings: {', '.join(sorted(unknown))}")
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise ConfigurationError(f"settings (MQPG_…): {'; '.join(wrong)}") from None

    def database_dsn(self) -> str | None:
        """Reveal the broker's DSN, password included.

        Returns:
            MQPG_DATABASE_URL, or else DATABASE_URL. None where neither is set.
        """
        return self.database_url.get_secret_value() if self.database_url is not None else None


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
