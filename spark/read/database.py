"""A connection of psycopg in the form that JDBC expects."""

from __future__ import annotations

from mqpg.values.errors import ConfigurationError

__all__ = ["jdbc_options"]

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
