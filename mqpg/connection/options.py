"""Options of connections to the broker, the same for both libraries."""

from __future__ import annotations

import select
from collections.abc import Mapping
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from mqpg.connection.settings import Settings

__all__ = [
    "FORMATS",
    "KEEPALIVE",
    "SESSION",
    "SETTINGS",
    "UNLIMITED",
    "WATCHED",
    "connect_options",
    "has_news",
    "set_for_session",
    "transport",
]

# A role or a database may have other settings. Drivers read one form of times and intervals, with array_nulls off a
# list with a null would hold the text NULL, and SQLAlchemy does not know the type "text" in quotes.
FORMATS = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
}


def set_for_session(settings: Mapping[str, str]) -> str:
    """The statement that makes settings for a session. One statement costs one round trip."""
    return "select " + ", ".join(
        f"pg_catalog.set_config('{name}', '{value}', false)" for name, value in settings.items()
    )


# What lets the server notice a host that vanished, and end its transaction. While data are on the way to it, TCP
# sends no keepalives. A server on a platform that has not all of these ignores the others.
WATCHED = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "10s",
}

# A limit that an administrator meant for queries would cut off a long iteration of a worker, or a migration, each
# time. Only version 17 and newer have the second of these.
UNLIMITED = """
select pg_catalog.set_config(s.name, '0', false) from pg_catalog.pg_settings as s
where s.name in ('statement_timeout', 'transaction_timeout')
"""

# append, keep and others refuse any other level, and the server's default may be another one. A server with LLVM
# compiles statements over many partitions, which takes longer than to run them.
SETTINGS = {"default_transaction_isolation": "read committed", "jit": "off", **FORMATS, **WATCHED}
SESSION = set_for_session(SETTINGS)

# A host that vanished is noticed within half a minute.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}


def transport(dsn: str, connect_timeout: int = 10) -> dict[str, Any]:
    """The parameters that say how a connection is made and watched, without those that the DSN has.

    `connect_timeout` is how many seconds each host is tried. Of several hosts the one that can write is
    the primary, whichever of them that is at the moment. The client's encoding is always UTF8.
    """
    given = conninfo_to_dict(dsn)
    wanted: dict[str, Any] = {"connect_timeout": connect_timeout, **KEEPALIVE}
    if any("," in str(given.get(name) or "") for name in ("host", "hostaddr")):
        wanted["target_session_attrs"] = "read-write"
    return {name: value for name, value in wanted.items() if name not in given} | {"client_encoding": "utf8"}


def connect_options(dsn: str, settings: Settings) -> dict[str, Any]:
    """Keyword arguments for psycopg.connect. What the DSN itself says takes precedence."""
    chosen = transport(dsn, settings.connect_timeout)
    if "application_name" not in conninfo_to_dict(dsn):
        chosen["application_name"] = settings.application_name
    return chosen | {"autocommit": True, "prepare_threshold": settings.prepare_threshold}


def has_news(fd: int) -> bool:
    """Whether an idle connection has something to read: its end, an error or a notice.

    Looking costs no round trip, so every connection is looked at before it is used.
    """
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))
