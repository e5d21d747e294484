"""DSNs as text, in the notations of libpq and SQLAlchemy.

Three notations are accepted everywhere: libpq URLs (``postgresql://``, ``postgres://``), libpq
conninfo strings (``host=… dbname=…``) and SQLAlchemy URLs (``postgresql+psycopg://``). Messages and
logs show what `describe` returns, in which no password appears.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mqpg.values.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import URL
    from typing_extensions import TypeIs

__all__ = [
    "NOWHERE",
    "describe",
    "from_libpq_variables",
    "has_password",
    "require_driver",
    "require_named",
    "to_libpq",
    "to_sqlalchemy",
]

_SQLALCHEMY = re.compile(r"^postgres(ql)?\+\w+://")
_LIBPQ_URL = re.compile(r"^postgres(ql)?://")
_ANY_URL = re.compile(r"^(\w+)(\+\w+)?:/")
# A name or password with one of these characters ends too soon, and its rest is read as a host or a
# database, which messages show.
_RAW_AT = re.compile(r"^[\w+]+://(?!/)(?:[^?]*@[^?]*@|[^@?]*/[^?]*@)")
_UNKNOWN = re.compile(r'invalid URI query parameter: "(\w+)"')
_NAMED = re.compile(r"^[\w.-]+=(?=\w+(\+\w+)?://)")
_SECRETS = ("password", "sslpassword")
_OF_ASYNCPG = ("prepared_statement_", "statement_cache_size", "command_timeout")
_LIBPQ_VARIABLES = {
    "PGHOST": "host", "PGHOSTADDR": "hostaddr", "PGPORT": "port", "PGDATABASE": "dbname", "PGUSER": "user",
}  # fmt: skip
NOWHERE = (
    "no database is named: give a DSN (--dsn, or the argument of connect), or set MQPG_DATABASE_URL; "
    "mqpg up starts a server in this folder, and the DSN 'embedded' does the same"
)
# For each kind of database the driver of each library, and other drivers that the other library cannot use.
_ASYNC_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "sqlite": "sqlite+aiosqlite",
    "mysql": "mysql+aiomysql",
    "mariadb": "mariadb+aiomysql",
}
_SYNC_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "sqlite": "sqlite",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
_ASYNC_ONLY = ("asyncpg", "psycopg_async", "aiosqlite", "aiomysql", "asyncmy")
_SYNC_ONLY = ("psycopg2", "psycopg2cffi", "pg8000", "pysqlite", "pysqlcipher", "pymysql", "mysqldb", "")


def require_named(dsn: str | None, what: str) -> None:
    """Refuse a DSN that is empty, as where a variable of the deployment was not filled in.

    Args:
        dsn: The DSN. None: none was given, which is no error.
        what: What it is, for the message.

    Raises:
        ConfigurationError: The DSN is empty.
    """
    if isinstance(dsn, str) and not dsn.strip():
        raise ConfigurationError(f"{what} is empty: name the broker's database, or leave it out. {NOWHERE}")


def to_libpq(dsn: str | URL) -> str:
    """Convert a DSN to libpq notation.

    Args:
        dsn: The DSN in any accepted notation.

    Returns:
        A libpq URL or conninfo string.

    Raises:
        ConfigurationError: It cannot be read, or is of another database than PostgreSQL.
    """
    if _is_url(dsn):
        if dsn.get_backend_name() != "postgresql":
            raise ConfigurationError(f"the URL must begin with postgresql://, not {dsn.drivername}://")
        return _conninfo(dsn)
    text = _text(dsn)
    if _SQLALCHEMY.match(text):
        return _conninfo(_parse_url(text))
    if _ANY_URL.match(text) and not _LIBPQ_URL.match(text):
        raise ConfigurationError(f"the DSN must begin with postgresql://, not {text.split(':', 1)[0]}://")
    _parameters(text)
    return text


def to_sqlalchemy(dsn: str | URL, *, asynchronous: bool = False) -> URL:
    """Convert a DSN to a SQLAlchemy URL with a driver that the library can use.

    Args:
        dsn: The DSN in any accepted notation, or the SQLAlchemy URL of any database.
        asynchronous: Whether the driver must be an asynchronous one.

    Returns:
        The URL.

    Raises:
        ConfigurationError: The DSN cannot be read.
    """
    if _is_url(dsn):
        url = dsn
    elif _ANY_URL.match(text := _text(dsn)) and not _LIBPQ_URL.match(text):
        url = _parse_url(text)
    else:
        url = _from_parameters(_parameters(text))
    name, _, driver = url.drivername.partition("+")
    wanted, others = (_ASYNC_DRIVERS, _SYNC_ONLY) if asynchronous else (_SYNC_DRIVERS, ("", *_ASYNC_ONLY))
    if driver in others and name in wanted:
        url = url.set(drivername=wanted[name])
        return url.set(query=_for_psycopg(url.query)) if name == "postgresql" else url
    return url


def _for_psycopg(query: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a URL, where those of asyncpg have the names of libpq."""
    names = {"ssl": "sslmode", "timeout": "connect_timeout"}
    return {names.get(name, name): value for name, value in query.items() if not name.startswith(_OF_ASYNCPG)}


def require_driver(dialect: Any, name: str, *, asynchronous: bool) -> None:
    """Refuse an engine or a URL whose driver is that of the other library.

    Args:
        dialect: SQLAlchemy's dialect of the engine.
        name: What the database is, for the message.
        asynchronous: Whether the driver must be an asynchronous one.

    Raises:
        ConfigurationError: It is not.
    """
    if dialect.is_async == asynchronous:
        return
    drivers = _ASYNC_DRIVERS if asynchronous else _SYNC_DRIVERS
    instead = f": use {drivers[dialect.name]}://" if dialect.name in drivers else ""
    raise ConfigurationError(
        f"{name}: the driver {dialect.name}+{dialect.driver} is {'synchronous' if asynchronous else 'asynchronous'}, "
        f"and this needs {'an asynchronous' if asynchronous else 'a synchronous'} one{instead}"
    )


def describe(dsn: str | URL) -> str:
    """Describe a database in messages and logs, without a password.

    Args:
        dsn: The DSN in any accepted notation, or the SQLAlchemy URL of any database.

    Returns:
        Host, port and database. Of another database than PostgreSQL, the URL.
    """
    if _is_url(dsn) and dsn.get_backend_name() != "postgresql":
        return dsn.render_as_string(hide_password=True)
    try:
        found: Mapping[str, Any] = _parameters(to_libpq(dsn))
    except ConfigurationError:
        return "(unreadable DSN)"
    if found.get("service"):  # the service has what the DSN does not
        return " ".join(f"{name}={found[name]}" for name in ("service", "host", "port", "dbname") if found.get(name))
    host = found.get("host") or found.get("hostaddr") or os.environ.get("PGHOST") or "(default socket)"
    port = found.get("port") or os.environ.get("PGPORT") or "5432"
    user = found.get("user") or os.environ.get("PGUSER")
    dbname = found.get("dbname") or os.environ.get("PGDATABASE") or user or "(default)"
    return f"host={host} port={port} dbname={dbname}"


def has_password(text: str) -> bool:
    """Say whether a DSN or URL carries a password.

    Args:
        text: A DSN in any accepted notation or the SQLAlchemy URL of any database. A name may stand
            in front, as in `shop=postgresql://…`.

    Returns:
        True if it does, also if it cannot be read but seems to.
    """
    text = _NAMED.sub("", text.strip())
    try:
        if _ANY_URL.match(text) and not _LIBPQ_URL.match(text):
            url = _parse_url(text)
            return bool(url.password) or any(name in url.query for name in _SECRETS)
        return any(_parameters(text).get(name) for name in _SECRETS)
    except ConfigurationError:
        return "@" in text or "password" in text


def _is_url(dsn: object) -> TypeIs[URL]:
    """Whether it is a URL object of SQLAlchemy, which is not loaded where nobody has one."""
    if "sqlalchemy" not in sys.modules:
        return False
    from sqlalchemy import URL

    return isinstance(dsn, URL)


def _text(dsn: str) -> str:
    if not isinstance(dsn, str):
        raise ConfigurationError(f"a DSN must be text or a SQLAlchemy URL, not {type(dsn).__name__}")
    return dsn.strip()


def _require_encoded(text: str) -> None:
    if _RAW_AT.match(text):
        raise ConfigurationError(
            "cannot read the DSN: the characters @ / : ? # % of a user or password must be percent-encoded "
            "in postgresql://user@host:port/database"
        )


def _parameters(text: str) -> dict[str, Any]:
    _require_encoded(text)
    try:
        return conninfo_to_dict(text)
    except psycopg.Error as error:
        # libpq's own message may quote the string, password and all.
        unknown, query = _UNKNOWN.search(str(error)), text.partition("?")[2]
        if unknown and "@" not in query and "password=" not in query:
            raise ConfigurationError(f"the DSN has a parameter that libpq does not know: {unknown[1]}") from None
        raise ConfigurationError(
            "cannot read the DSN: it must be postgresql://user@host:port/database or host=… dbname=…"
        ) from None


def _parse_url(text: str) -> URL:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    _require_encoded(text)
    try:
        return make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigurationError("cannot read the database URL: it must be driver://user@host:port/database") from None


def _conninfo(url: URL) -> str:
    """Convert a SQLAlchemy URL to a conninfo string.

    Several hosts are `?host=a:1&host=b:2` in the one and `host=a,b port=1,2` in the other.
    """
    query = {name: value for name, value in _for_psycopg(url.query).items() if name != "host"}
    host, port = url.host, query.pop("port", None) or (str(url.port) if url.port else None)
    asked = url.query.get("host")
    if asked:
        hosts = [asked] if isinstance(asked, str) else list(asked)
        pairs = [one.rpartition(":") if ":" in one and not one.startswith("/") else (one, "", "") for one in hosts]
        host = ",".join(pair[0] for pair in pairs)
        port = ",".join(pair[2] or "5432" for pair in pairs) if any(pair[2] for pair in pairs) else port
    try:
        return make_conninfo(
            host=host, port=port, user=url.username, password=url.password, dbname=url.database, **query
        )
    except psycopg.Error as error:
        raise ConfigurationError(f"the database URL has a parameter that libpq does not know: {error}") from None


def _from_parameters(found: Mapping[str, Any]) -> URL:
    rest = {name: str(value) for name, value in found.items() if name not in {"user", "password", "dbname"}}
    host, port = rest.pop("host", None), rest.pop("port", None)
    query: dict[str, Any] = dict(rest)
    if host and ("," in host or host.startswith("/")):
        hosts, ports = host.split(","), (port or "").split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        query["host"] = tuple(f"{h}:{p}" if p else h for h, p in zip(hosts, ports, strict=False))
        if len(hosts) == 1:  # a socket directory: a colon would end up in its name
            query["host"] = host
            query |= {"port": port} if port else {}
        host = port = None
    elif port and not host:
        query["port"], port = port, None
    if port and not port.isdecimal():
        raise ConfigurationError("cannot read the DSN: the port must be a number, and several ports need several hosts")
    from sqlalchemy import URL

    return URL.create(
        "postgresql+psycopg",
        username=found.get("user"),
        password=found.get("password"),
        host=host,
        port=int(port) if port else None,
        database=found.get("dbname"),
        query=query,
    )


def from_libpq_variables() -> str | None:
    """Read the database that the PG* variables name. libpq reads the others, such as PGPASSWORD.

    Returns:
        The DSN. None: they name none.
    """
    if service := os.environ.get("PGSERVICE"):
        return make_conninfo(service=service)
    named = {key: os.environ[name] for name, key in _LIBPQ_VARIABLES.items() if os.environ.get(name)}
    return make_conninfo(**named) or None
