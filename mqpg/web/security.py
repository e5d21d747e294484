"""The login: one password, signed session cookies, and the tokens of forms."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass

__all__ = ["LOGIN_COOKIE", "LONGEST_NAME", "SESSION_COOKIE", "SESSION_SECONDS", "Security", "Session"]

SESSION_COOKIE = "mqpg_session"
LOGIN_COOKIE = "mqpg_login"
SESSION_SECONDS = 12 * 3600
LONGEST_NAME = 60
# Nobody mistypes a password so often, and a guesser gets no further.
_MOST_FAILURES, _FORGET_AFTER = 10, 60.0


@dataclass(frozen=True)
class Session:
    """Somebody who has logged in.

    Attributes:
        name: The name that they gave. Nothing verifies it: the password is one for all.
        nonce: The secret of this session.
    """

    name: str
    nonce: str


class Security:
    """Sessions of one process. They end when it does, because it signs with a secret of its own.

    Args:
        password: The password. None: there is no login.
    """

    def __init__(self, password: str | None) -> None:
        self._secret = secrets.token_bytes(32)
        self._password = None if password is None else self._digest("password", password)
        self._ended: set[str] = set()
        self._failures: list[float] = []
        self._lock = threading.Lock()

    @property
    def has_login(self) -> bool:
        """Whether there is a password."""
        return self._password is not None

    def is_password(self, given: str) -> bool | None:
        """Compare a password in constant time.

        Args:
            given: What somebody typed.

        Returns:
            Whether it is the password. None: too many were wrong in the last minute, and none is
            compared.
        """
        now = time.monotonic()
        with self._lock:
            self._failures = [at for at in self._failures if now - at < _FORGET_AFTER]
            if len(self._failures) >= _MOST_FAILURES:
                return None
            same = self._password is not None and hmac.compare_digest(self._digest("password", given), self._password)
            if not same:
                self._failures.append(now)
            return same

    def begin(self, name: str) -> str:
        """Begin a session.

        Args:
            name: Who it is.

        Returns:
            The cookie's value.
        """
        text = f"{_encode(name)}.{secrets.token_urlsafe(16)}.{int(time.monotonic())}"
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
        return Session(_decode(name), nonce)

    def end(self, session: Session) -> None:
        """End a session, so that its cookie is worth nothing.

        Args:
            session: The session.
        """
        self._ended.add(session.nonce)

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
