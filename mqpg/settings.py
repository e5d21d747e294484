"""Settings from the environment, prefix MQPG_; every one has a default."""

from __future__ import annotations

import os
import re
from typing import Any

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from mqpg.errors import ConfigurationError

__all__ = ["Settings", "ledger_url", "ledger_variable"]


class Settings(BaseSettings):
    """How a client connects. Times are seconds."""

    model_config = SettingsConfigDict(
        env_prefix="MQPG_", extra="ignore", populate_by_name=True, env_parse_none_str="none"
    )

    # SecretStr: a printed Settings shows no password.
    database_url: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("MQPG_DATABASE_URL", "DATABASE_URL")
    )
    application_name: str = "mqpg"
    pool_min_size: int = Field(default=0, ge=0)
    pool_max_size: int = Field(default=10, ge=1)
    pool_timeout: float = Field(default=30.0, gt=0)
    connect_timeout: int = Field(default=10, ge=1)
    # How long calls that may be repeated are repeated while the server is away.
    retry_timeout: float = Field(default=15.0, ge=0)
    # None behind a pooler in transaction mode (MQPG_PREPARE_THRESHOLD=none).
    prepare_threshold: int | None = 5
    # Be woken by the appender's notifications. False: only poll (they get lost behind a pooler in transaction
    # mode, which is noticed without this setting too).
    listen: bool = True
    # Longest pause between two looks for new ticks where no notification is known to arrive.
    poll_interval: float = Field(default=1.0, ge=0.01)

    @classmethod
    def read(cls, **given: Any) -> Settings:
        """What is given, else the environment. Raises ConfigurationError, which names the variable."""
        unknown = given.keys() - cls.model_fields.keys()
        if unknown:
            raise ConfigurationError(f"unknown settings: {', '.join(sorted(unknown))}")
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            raise ConfigurationError(f"settings (MQPG_…): {'; '.join(wrong)}") from None

    def database_dsn(self) -> str | None:
        """MQPG_DATABASE_URL, else DATABASE_URL, else None."""
        return self.database_url.get_secret_value() if self.database_url else None


def ledger_variable(name: str) -> str:
    """The variable that holds the SQLAlchemy URL of ledger `name`: MQPG_LEDGER_<NAME>, [-.] become _."""
    return "MQPG_LEDGER_" + re.sub(r"[-.]", "_", name).upper()


def ledger_url(name: str) -> str | None:
    """The ledger URL of a producer group's `checker_target`, or None where none is configured."""
    return os.environ.get(ledger_variable(name))
