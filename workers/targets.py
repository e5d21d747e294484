"""`--ledger name=url`: ledgers named on the command line, before those of MQPG_LEDGER_<NAME>."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mqpg.errors import ConfigurationError
from mqpg.settings import ledger_url, ledger_variable

__all__ = ["find_url", "parse_ledgers", "to_environment"]


def parse_ledgers(options: Iterable[str]) -> dict[str, str]:
    """`["shop=sqlite:////data/shop.db"]` as a dictionary. Raises ConfigurationError for anything else."""
    pairs: dict[str, str] = {}
    for option in options:
        name, separator, url = option.partition("=")
        if not (separator and name and "://" in url):
            raise ConfigurationError(
                "--ledger must be name=url, the url as SQLAlchemy writes it, like shop=sqlite:////data/shop.db"
            )
        pairs[name] = url
    return pairs


def find_url(name: str, given: Mapping[str, str]) -> str | None:
    """The URL of the ledger of that name; None when this process does not know it."""
    return given.get(name) or ledger_url(name) or None


def to_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The same names as variables for a child process: an argument would show passwords in the process list."""
    return {ledger_variable(name): url for name, url in given.items()}
