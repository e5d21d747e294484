"""The login and the logout."""

from __future__ import annotations

import secrets

from starlette.responses import RedirectResponse, Response

from mqpg.values.errors import ConfigurationError

from ..failures import TooManyFailures
from ..security import LOGIN_COOKIE, SESSION_COOKIE, SESSION_SECONDS
from ..visit import Visit

__all__ = ["leave", "page", "submit"]

_WRONG_ROLE = "The database refuses this role or its password. The log of the dashboard says why."


def page(visit: Visit) -> Response:
    """Show the form."""
    if not visit.site.security.has_login or visit.session is not None:
        return RedirectResponse(visit.link(), 303)
    return _form(visit, 200, "")


def submit(visit: Visit) -> Response:
    """Compare the password, and begin a session."""
    security, name = visit.site.security, visit.text("name")
    nonce = visit.request.cookies.get(LOGIN_COOKIE, "")
    if not nonce or not security.is_token(visit.text("token"), nonce):
        return _form(visit, 403, "This form is too old, or your browser sends no cookies. Try again.")
    if not name:
        return _form(visit, 400, "Say who you are: decisions keep the name.")
    try:
        cookie = security.log_in(name, visit.form.get("password", [""])[0])
    except TooManyFailures:
        return _form(visit, 429, "Too many wrong passwords. Wait a minute.")
    except ConfigurationError as error:
        return _form(visit, 403, f"Nobody can log in: {error}.")
    if cookie is None:
        return _form(visit, 401, _WRONG_ROLE if security.asks_for_role else "The password is wrong.")
    answer = RedirectResponse(visit.link(), 303)
    _set(visit, answer, SESSION_COOKIE, cookie, SESSION_SECONDS)
    answer.delete_cookie(LOGIN_COOKIE, path=_path(visit))
    return answer


def leave(visit: Visit) -> Response:
    """End the session."""
    session = visit.session
    if session is None or not visit.site.security.is_token(visit.text("token"), session.nonce):
        return visit.problem(403, "This form was not made for you", "Load the page again.")
    visit.site.security.end(session)
    answer = RedirectResponse(visit.link("login"), 303)
    answer.delete_cookie(SESSION_COOKIE, path=_path(visit))
    return answer


def _form(visit: Visit, status: int, wrong: str) -> Response:
    nonce = secrets.token_urlsafe(16)
    security = visit.site.security
    shown = {"login_token": security.token(nonce), "asks_for_role": security.asks_for_role}
    answer = visit.page("login.html", status, wrong=wrong, **shown)
    _set(visit, answer, LOGIN_COOKIE, nonce, 3600)
    return answer


def _set(visit: Visit, answer: Response, name: str, value: str, seconds: int) -> None:
    secure = visit.request.url.scheme == "https"
    answer.set_cookie(name, value, max_age=seconds, path=_path(visit), httponly=True, samesite="strict", secure=secure)


def _path(visit: Visit) -> str:
    return visit.request.scope.get("root_path", "") or "/"
