"""The login as a role of the database, which PostgreSQL itself verifies."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from mqpg.connection.options import transport
from mqpg.status import Source
from mqpg.values.errors import ConfigurationError, ConnectionFailed, translate

from .view import View

__all__ = ["RoleLogin"]

logger = logging.getLogger(__name__)

_PATIENCE = 5  # seconds for each host
_CONNECTIONS = 2  # of one session: the overview renews itself while another page is shown
_MOST_SESSIONS = 100  # one more ends the oldest
_MOST_OF_ONE = 5  # of one role, so that no role ends the sessions of all others


@dataclass(frozen=True)
class _Kept:
    """A session: the moment at which it is over, its role, and what this role sees."""

    until: float
    role: str
    view: View


class RoleLogin:
    """Opens the dashboard's database as those who log in, until their sessions end.

    A password is kept in memory as long as the session, because the connections need it.

    Args:
        dsn: The database, in libpq notation. Its own user and password are not used.
        seconds: How long a session lasts.
    """

    def __init__(self, dsn: str, seconds: float) -> None:
        self._dsn, self._seconds = dsn, seconds
        # By the nonces of their sessions. The oldest comes first.
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def prove(self, role: str, password: str) -> View | None:
        """Connect as a role, with its password.

        Args:
            role: The role's name, as somebody typed it.
            password: The password, as somebody typed it.

        Returns:
            The broker as this role sees it. None: the server refuses the role or its password.

        Raises:
            ConnectionFailed: The server does not answer. Of several hosts another one may have
                refused the password.
            ConfigurationError: The server did not ask for the password, or it works as another
                role, so nothing is proved.
        """
        # Of an empty one libpq would take the operating system's user, or the password of the
        # environment or of .pgpass.
        if not role or not password or "\x00" in role + password:
            return None
        dsn = make_conninfo(self._dsn, user=role, password=password)
        try:
            with psycopg.connect(dsn, autocommit=True, **transport(dsn, _PATIENCE)) as conn:
                _require_role(conn, role)
        except psycopg.OperationalError as error:
            logger.warning("login of role %r failed: %s", role, translate(error))
            if error.pgconn is not None and error.pgconn.used_password:
                return None
            # Where the database is, is nothing for those who have not logged in.
            raise ConnectionFailed("the database takes no login; the log of the dashboard says why") from error
        return View(Source(dsn, "mqpg web", _CONNECTIONS))

    def keep(self, nonce: str, role: str, view: View) -> None:
        """Keep what a role sees, for its session.

        Args:
            nonce: The secret of the session.
            role: The role's name.
            view: What `prove` returned.
        """
        with self._lock:
            own = [one for one, kept in self._kept.items() if kept.role == role]
            over = _too_many(own, _MOST_OF_ONE) or _too_many(list(self._kept), _MOST_SESSIONS)
            self._kept[nonce] = _Kept(time.monotonic() + self._seconds, role, view)
        for one in over:
            self.end(one)
        self._end_expired()

    def view(self, nonce: str) -> View | None:
        """Find what a role sees.

        Args:
            nonce: The secret of its session.

        Returns:
            The view. None: the session is over.
        """
        self._end_expired()
        with self._lock:
            kept = self._kept.get(nonce)
        return None if kept is None else kept.view

    def end(self, nonce: str) -> None:
        """End a session: close its connections, and forget its password.

        Args:
            nonce: The secret of the session.
        """
        with self._lock:
            kept = self._kept.pop(nonce, None)
        if kept is not None:
            # Connections may take a while to close, and an event loop may have asked.
            close = partial(kept.view.source.close, for_good=True)
            threading.Thread(target=close, name="mqpg web: end of a session", daemon=True).start()

    def _end_expired(self) -> None:
        """End the sessions whose time is over, and wake up again for the next one."""
        now = time.monotonic()
        with self._lock:
            over = [one for one, kept in self._kept.items() if kept.until <= now]
        for one in over:
            self.end(one)
        with self._lock:
            if self._kept and self._timer is None:
                self._timer = threading.Timer(next(iter(self._kept.values())).until - now, self._wake)
                self._timer.daemon = True
                self._timer.start()

    def _wake(self) -> None:
        with self._lock:
            self._timer = None
        self._end_expired()


def _too_many(nonces: list[str], most: int) -> list[str]:
    """The oldest ones, so that there is room for one more."""
    return nonces[: max(0, len(nonces) - most + 1)]


def _require_role(conn: psycopg.Connection[Any], role: str) -> None:
    """Require that a password has proved this role, and that the server works as this role."""
    if not conn.pgconn.used_password:
        raise ConfigurationError(
            "the database lets this dashboard in without asking for a password (see its pg_hba.conf), so a login "
            "would prove nothing"
        )
    found = conn.execute("select session_user::text").fetchone()
    assert found is not None
    if found[0] != role:
        logger.warning("login of role %r failed: the database works as role %r", role, found[0])
        raise ConfigurationError(
            "the database works as another role than the one that logs in (a pooler in front of it may map users), "
            "so a visitor would have the rights of somebody else"
        )
