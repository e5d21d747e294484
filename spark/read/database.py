"""What an audit reads from: a PostgreSQL database as psycopg and as JDBC want it."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqpg.dsn import describe, to_libpq, to_sqlalchemy
from mqpg.errors import ConfigurationError

__all__ = ["Database", "is_postgresql", "jdbc_options", "parse_database"]

# libpq parameters that the JDBC driver knows under another name; the rest either has a default or is libpq's alone.
_JDBC_NAMES = {
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslrootcert": "sslrootcert",
    "options": "options",
    "connect_timeout": "connectTimeout",
}


@dataclass(frozen=True)
class Database:
    """One PostgreSQL database to read. `name` is free of passwords and fit for reports."""

    conninfo: str = field(repr=False)
    name: str


def is_postgresql(url: str) -> bool:
    """Whether a DSN or URL names a PostgreSQL database; others are read through SQLAlchemy."""
    return to_sqlalchemy(url).get_backend_name() == "postgresql"


def parse_database(url: str) -> Database:
    """A Database from a libpq DSN or a SQLAlchemy URL. Raises ConfigurationError for what is neither."""
    return Database(to_libpq(url), describe(url))


def jdbc_options(host: str, port: int, dbname: str, parameters: dict[str, str], password: str) -> dict[str, str]:
    """Spark's JDBC options for a server that psycopg has reached: `parameters` are psycopg's, password apart.

    Raises ConfigurationError for a Unix socket, which the JDBC driver cannot use.
    """
    if not host or host.startswith(("/", "@")):
        raise ConfigurationError(
            f"JDBC needs TCP, and this database was reached through a Unix socket ({host or 'default'}): "
            "give a host in its DSN"
        )
    shown = f"[{host}]" if ":" in host else host
    options = {
        "url": f"jdbc:postgresql://{shown}:{port}/{dbname}",
        "driver": "org.postgresql.Driver",
        "user": parameters.get("user", ""),
        "ApplicationName": "mqpg audit",
    }
    options |= {jdbc: parameters[libpq] for libpq, jdbc in _JDBC_NAMES.items() if parameters.get(libpq)}
    if password:  # never in the URL: URLs reach logs
        options["password"] = password
    return options
