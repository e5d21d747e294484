"""Who asks: a user of the password file with a session, or the name that a proxy sends."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from mqpg.values.errors import ConfigurationError

from .passwords import hashed, is_right

__all__ = ["LOOPBACK", "Login", "PasswordLogin", "ProxyLogin", "Sessions", "TooManyFailures", "User", "is_secure"]

LOOPBACK = ("127.0.0.0/8", "::1")
_SESSION_SECONDS = 12 * 3600
# More often than anybody mistypes a password, and too seldom for a guesser.
_MOST_FAILURES, _FAILURE_SECONDS = 10, 60.0


@dataclass(frozen=True)
class User:
    """Somebody who may read, and act if the dashboard has actions."""

    name: str  # Who it is. Decisions keep it.
    token: str  # what the forms of this user carry, which another site cannot know


class Login(Protocol):
    """Finds out who asks."""

    def user(self, request: HTTPConnection) -> User | None:
        """Find the user of a request. None: it has none."""


class TooManyFailures(Exception):
    """Too many passwords were wrong in the last minute, so none is compared."""


class PasswordLogin:
    """Users of a password file, as `read_users` returns them, each with a session. Threads may share it."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self._unknown_user = hashed(secrets.token_urlsafe())  # so that an unknown name takes as long as a known one
        self._failures: deque[float] = deque(maxlen=_MOST_FAILURES)
        self._ended: dict[str, float] = {}  # token of a session that was ended -> when
        self._lock = threading.Lock()

    def user(self, request: HTTPConnection) -> User | None:
        session = request.session
        if not session or session["token"] in self._ended or time.monotonic() - session["since"] > _SESSION_SECONDS:
            return None
        return User(session["name"], session["token"])

    def begin(self, request: HTTPConnection, name: str, password: str) -> bool:
        """Begin a session if this is the password of this user, and say whether it is.

        Passwords are compared one after another, so that many cannot be tried at the same time.
        After ten wrong ones in a minute this raises TooManyFailures.
        """
        with self._lock:
            failures, now = self._failures, time.monotonic()
            if len(failures) == _MOST_FAILURES and now - failures[0] < _FAILURE_SECONDS:
                raise TooManyFailures
            if not is_right(password, self._users.get(name, self._unknown_user)):
                failures.append(now)
                return False
        request.session.clear()
        request.session.update(name=name, token=secrets.token_urlsafe(), since=now)
        return True

    def end(self, request: HTTPConnection) -> None:
        """End a session, so that a copy of its cookie is worth nothing."""
        now = time.monotonic()
        with self._lock:
            self._ended = {token: at for token, at in self._ended.items() if now - at < _SESSION_SECONDS}
            self._ended[request.session["token"]] = now
        request.session.clear()


class ProxyLogin:
    """The name in a header that a proxy sets, which has asked for a password itself.

    The header of anybody whose address is not one of `proxies` counts for nothing.
    """

    def __init__(self, header: str, proxies: Sequence[str] = LOOPBACK) -> None:
        try:
            self._proxies = [ipaddress.ip_network(one) for one in proxies]
        except ValueError as error:
            raise ConfigurationError(f"a trusted proxy is an address or a network: {error}") from error
        self._header, self._secret = header, secrets.token_bytes(32)

    def user(self, request: HTTPConnection) -> User | None:
        names = request.headers.getlist(self._header)
        # Two headers: the proxy has added its own to that of the browser, instead of replacing it.
        if len(names) != 1 or not self._is_trusted(request):
            return None
        name = names[0].encode("latin-1").decode("utf-8", "replace").strip()
        token = hmac.new(self._secret, name.encode(), "sha256").hexdigest()
        return User(name, token) if name else None

    def _is_trusted(self, request: HTTPConnection) -> bool:
        try:
            address = ipaddress.ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._proxies)


class Sessions:
    """Starlette's sessions, with a cookie for the path and the scheme of each request.

    Its secret ends with the process, and the sessions with it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._secret = app, secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sessions = SessionMiddleware(
            self._app,
            self._secret,
            session_cookie="mqpg_session",
            max_age=_SESSION_SECONDS,
            path=scope.get("root_path") or "/",
            same_site="strict",
            https_only=is_secure(HTTPConnection(scope)),
        )
        # A copy, because an application around this one may have a session of its own in the scope.
        await sessions(dict(scope), receive, send)


def is_secure(request: HTTPConnection) -> bool:
    """Whether the browser speaks TLS, to this server or to a proxy in front of it.

    A header that says so wrongly only marks the sender's own cookies.
    """
    return request.url.scheme == "https" or request.headers.get("X-Forwarded-Proto") == "https"
