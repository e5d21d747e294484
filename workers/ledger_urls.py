"""Ledgers of the command line (`--ledger name=url`) and of the variables MQPG_LEDGER_<NAME>."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mqpg.connection.settings import ledger_url
from mqpg.values.errors import ConfigurationError

__all__ = ["find_url", "parse_ledgers"]


def parse_ledgers(options: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--ledger`, for instance `shop=sqlite:////data/shop.db`, to the URL of each name.

    A name may come several times. It has all of these URLs then, with blanks between, as in a variable.
    """
    pairs: dict[str, str] = {}
    for option in options:
        name, separator, url = option.partition("=")
        if not (separator and name and "://" in url):
            raise ConfigurationError(
                "--ledger must be name=url with a SQLAlchemy URL, for instance shop=sqlite:////data/shop.db"
            )
        pairs[name] = f"{pairs[name]} {url}" if name in pairs else url
    return pairs


def find_url(name: str, given: Mapping[str, str]) -> str | None:
    """Find the URL of a ledger: that of the command line (`given`), else that of the environment.

    None: this process does not know the ledger.
    """
    return given.get(name) or ledger_url(name) or None
