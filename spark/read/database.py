"""A PostgreSQL database that the audit reads, in the forms that psycopg and JDBC expect."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqpg.connection.dsn import describe, to_libpq, to_sqlalchemy
from mqpg.values.errors import ConfigurationError

__all__ = ["Database", "is_postgresql", "jdbc_options", "parse_database"]

# libpq parameters that the JDBC driver knows, and their names there. The driver has a default for
# every other parameter, or the parameter exists in libpq only.
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
    """One PostgreSQL database to read.

    Attributes:
        conninfo: How psycopg connects to it. It may contain a password.
        name: How reports and error texts call it. It never contains a password.
    """

    conninfo: str = field(repr=False)
    name: str


def is_postgresql(url: str) -> bool:
    """Whether a DSN or URL names a PostgreSQL database. Every other one is read through SQLAlchemy."""
    return to_sqlalchemy(url).get_backend_name() == "postgresql"


def parse_database(url: str) -> Database:
    """Make a Database from a libpq DSN or a SQLAlchemy URL of a PostgreSQL database."""
    return Database(to_libpq(url), describe(url))


def jdbc_options(host: str, port: int, dbname: str, parameters: dict[str, str], password: str) -> dict[str, str]:
    """Translate a connection of psycopg into the options of a Spark JDBC read.

    The password is an option of its own, because URLs reach logs; an empty text means that there is none.
    Raises ConfigurationError for a Unix socket, which the JDBC driver cannot use.
    """
    if not host or host.startswith(("/", "@")):
        raise ConfigurationError(
            f"JDBC needs TCP, and this database was reached through a Unix socket ({host or 'default'}): "
            "name a host in its DSN"
        )
    shown = f"[{host}]" if ":" in host else host
    options = {
        "url": f"jdbc:postgresql://{shown}:{port}/{dbname}",
        "driver": "org.postgresql.Driver",
        "user": parameters.get("user", ""),
        "ApplicationName": "mqpg audit",
    }
    options |= {jdbc: parameters[libpq] for libpq, jdbc in _JDBC_NAMES.items() if parameters.get(libpq)}
    if password:
        options["password"] = password
    return options
