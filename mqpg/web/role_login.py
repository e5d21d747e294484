"""The login as a role of the database, which PostgreSQL itself verifies."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from mqpg import _connect
from mqpg.errors import ConfigurationError, ConnectionFailed, translate
from mqpg.status import Source

from .view import View

__all__ = ["RoleLogin"]

logger = logging.getLogger(__name__)

_PATIENCE = 5  # seconds for each host
_CONNECTIONS = 2  # of one session: the overview renews itself while another page is shown
_MOST_SESSIONS = 100  # one more ends the oldest


class RoleLogin:
    """Opens the dashboard's database as those who log in, until their sessions end.

    A password is kept in memory as long as the session, because the connections need it.

    Args:
        dsn: The database, in libpq notation. Its own user and password are not used.
        seconds: How long a session lasts.
    """

    def __init__(self, dsn: str, seconds: float) -> None:
        self._dsn, self._seconds = dsn, seconds
        # Nonce of a session -> when it ends, and what its role sees. The oldest comes first.
        self._views: dict[str, tuple[float, View]] = {}
        self._lock = threading.Lock()

    def prove(self, role: str, password: str) -> tuple[str, View] | None:
        """Connect as a role, with its password.

        Args:
            role: The role's name, as somebody typed it.
            password: The password, as somebody typed it.

        Returns:
            The role's name, as the server says it, and the broker as this role sees it. None: the
            server refuses the role or its password.

        Raises:
            ConnectionFailed: The server does not answer.
            ConfigurationError: The server did not ask for the password, so nothing is proved.
        """
        # Of an empty one libpq would take the operating system's user, or the password of the
        # environment or of .pgpass.
        if not role or not password or "\x00" in role + password:
            return None
        dsn = make_conninfo(self._dsn, user=role, password=password)
        try:
            with psycopg.connect(dsn, autocommit=True, **_connect.transport(dsn, _PATIENCE)) as conn:
                name = _name(conn)
        except psycopg.OperationalError as error:
            logger.warning("login of role %r failed: %s", role, translate(error))
            if error.pgconn is not None and error.pgconn.used_password:
                return None
            # Where the database is, is nothing for those who have not logged in.
            raise ConnectionFailed("the database takes no login; the log of the dashboard says why") from error
        return name, View(Source(dsn, "mqpg web", _CONNECTIONS))

    def keep(self, nonce: str, view: View) -> None:
        """Keep what a role sees, for its session.

        Args:
            nonce: The secret of the session.
            view: What `prove` returned.
        """
        now = time.monotonic()
        with self._lock:
            over = [one for one, (end, _) in self._views.items() if end < now]
            over += list(self._views)[: max(0, len(self._views) - len(over) - _MOST_SESSIONS + 1)]
            self._views[nonce] = now + self._seconds, view
        for one in over:
            self.end(one)

    def view(self, nonce: str) -> View | None:
        """Find what a role sees.

        Args:
            nonce: The secret of its session.

        Returns:
            The view. None: the session is over.
        """
        with self._lock:
            end, view = self._views.get(nonce, (0.0, None))
        if view is not None and end < time.monotonic():
            self.end(nonce)
            return None
        return view

    def end(self, nonce: str) -> None:
        """End a session: close its connections, and forget its password.

        Args:
            nonce: The secret of the session.
        """
        with self._lock:
            _, view = self._views.pop(nonce, (0.0, None))
        if view is not None:
            # Connections may take a while to close, and an event loop may have asked.
            threading.Thread(target=view.source.close, name="mqpg web: end of a session", daemon=True).start()


def _name(conn: psycopg.Connection[Any]) -> str:
    """Who has connected, if a password has proved it."""
    if not conn.pgconn.used_password:
        raise ConfigurationError(
            "the database lets this dashboard in without asking for a password (see its pg_hba.conf), so a login "
            "would prove nothing"
        )
    found = conn.execute("select session_user::text").fetchone()
    assert found is not None
    return str(found[0])
