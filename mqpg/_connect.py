"""Options of connections to the broker, the same for both libraries."""

from __future__ import annotations

import select
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from mqpg.settings import Settings

__all__ = ["KEEPALIVE", "SESSION", "has_news", "options"]

# append, keep and others refuse any other level, and the server's default may be another one.
SESSION = "set session characteristics as transaction isolation level read committed"

# A host that vanished is noticed within half a minute.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}


def options(dsn: str, settings: Settings) -> dict[str, Any]:
    """Keyword arguments for psycopg.connect. What the DSN itself says takes precedence."""
    given = conninfo_to_dict(dsn)
    wanted: dict[str, Any] = {
        "application_name": settings.application_name,
        "connect_timeout": settings.connect_timeout,
        **KEEPALIVE,
    }
    chosen = {name: value for name, value in wanted.items() if name not in given}
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
