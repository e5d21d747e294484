"""The login: who may begin a session, signed session cookies, and the tokens of forms."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass
from itertools import takewhile

from .failures import Failures
from .role_login import RoleLogin
from .view import View

__all__ = ["LOGIN_COOKIE", "SESSION_COOKIE", "SESSION_SECONDS", "Security", "Session"]

SESSION_COOKIE = "mqpg_session"
LOGIN_COOKIE = "mqpg_login"
SESSION_SECONDS = 12 * 3600
_LONGEST_NAME = 60  # of one that nothing verifies


@dataclass(frozen=True)
class Session:
    """Somebody who has logged in.

    Attributes:
        name: Who it is: the role whose password they knew, or else the name that they gave. Nothing
            verifies the latter, because the shared password is one for all.
        nonce: The secret of this session.
        view: The broker as the role sees it. None: they gave the shared password.
    """

    name: str
    nonce: str
    view: View | None = None


class Security:
    """Sessions of one process. They end when it does, because it signs with a secret of its own.

    Args:
        password: The password that all share. None: there is none.
        roles: Verifies roles of the database, which log in instead. None: they do not.
    """

    def __init__(self, password: str | None, roles: RoleLogin | None = None) -> None:
        self._secret = secrets.token_bytes(32)
        self._password = None if password is None else self._digest("password", password)
        self._roles = roles
        # Nonce of an ended session -> when it ended. The oldest comes first.
        self._ended: dict[str, float] = {}
        self._lock = threading.Lock()
        self._failures = Failures()

    @property
    def has_login(self) -> bool:
        """Whether nothing is shown before a login."""
        return self._password is not None or self._roles is not None

    @property
    def asks_for_role(self) -> bool:
        """Whether roles of the database log in, with passwords of their own."""
        return self._roles is not None

    def log_in(self, name: str, password: str) -> str | None:
        """Begin a session of somebody who knows a password.

        Args:
            name: Who they say they are, or the name of their role.
            password: What they typed.

        Returns:
            The cookie's value. None: the password is wrong, or the database refuses the role.

        Raises:
            TooManyFailures: Too many passwords were wrong in the last minute.
            ConnectionFailed: The database does not answer.
            ConfigurationError: The database does not ask roles for their password, or it works as
                another role.
        """
        # It stays counted where the database does not answer: of several hosts another one may have
        # refused the password before.
        counted = self._failures.count()
        cookie = self._begin_as_role(name, password) if self._roles else self._begin_as_anybody(name, password)
        if cookie is not None:
            self._failures.forget(counted)
        return cookie

    def _begin_as_anybody(self, name: str, password: str) -> str | None:
        if self._password is None or not _is_same(self._digest("password", password), self._password):
            return None
        return self._begin(name[:_LONGEST_NAME], secrets.token_urlsafe(16))

    def _begin_as_role(self, name: str, password: str) -> str | None:
        assert self._roles is not None
        view = self._roles.prove(name, password)
        if view is None:
            return None
        nonce = secrets.token_urlsafe(16)
        self._roles.keep(nonce, name, view)
        return self._begin(name, nonce)

    def _begin(self, name: str, nonce: str) -> str:
        """The value of a new session's cookie."""
        text = f"{_encode(name)}.{nonce}.{int(time.monotonic())}"
        return f"{text}.{self._digest('session', text)}"

    def session(self, cookie: str | None) -> Session | None:
        """Read a session's cookie.

        Args:
            cookie: Its value. None: the request has none.

        Returns:
            The session. None where it is forged, too old or ended.
        """
        text, _, signature = (cookie or "").rpartition(".")
        if not _is_same(signature, self._digest("session", text)):
            return None
        name, nonce, began = text.split(".")
        if nonce in self._ended or time.monotonic() - int(began) > SESSION_SECONDS:
            return None
        if self._roles is None:
            return Session(_decode(name), nonce)
        view = self._roles.view(nonce)
        return None if view is None else Session(_decode(name), nonce, view)

    def end(self, session: Session) -> None:
        """End a session, so that its cookie is worth nothing.

        Args:
            session: The session.
        """
        now = time.monotonic()
        with self._lock:
            self._ended[session.nonce] = now
            # The cookies of older ones are too old by now.
            for nonce in list(takewhile(lambda one: now - self._ended[one] > SESSION_SECONDS, self._ended)):
                del self._ended[nonce]
        if self._roles is not None:
            self._roles.end(session.nonce)

    def token(self, nonce: str) -> str:
        """Make the token of the forms of a session.

        Args:
            nonce: The session's, or that of the login page's cookie.

        Returns:
            The token. Another site cannot know it.
        """
        return self._digest("form", nonce)

    def is_token(self, given: str, nonce: str) -> bool:
        """Compare the token of a form in constant time.

        Args:
            given: What the form has sent.
            nonce: The session's, or that of the login page's cookie.

        Returns:
            Whether it is the right one.
        """
        return _is_same(given, self.token(nonce))

    def _digest(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _is_same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())


def _encode(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "replace")).decode().rstrip("=")


def _decode(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
