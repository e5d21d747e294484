"""The login with a password, and the logout."""

from __future__ import annotations

import secrets
from hmac import compare_digest

from starlette.responses import RedirectResponse, Response

from ..login import PasswordLogin, TooManyFailures, is_secure
from ..visit import Visit

__all__ = ["leave", "page", "submit"]

_COOKIE = "mqpg_login"
_SECONDS = 3600


def page(visit: Visit) -> Response:
    """Show the form."""
    if visit.may_read or not isinstance(visit.site.login, PasswordLogin):
        return RedirectResponse(visit.link(), 303)
    return _form(visit, 200, "")


def submit(visit: Visit) -> Response:
    """Compare the password, and begin a session."""
    login, nonce = visit.site.login, visit.request.cookies.get(_COOKIE, "")
    if not isinstance(login, PasswordLogin):
        return RedirectResponse(visit.link(), 303)
    if not nonce or not compare_digest(visit.text("token").encode(), nonce.encode()):
        return _form(visit, 403, "This form is too old, or your browser sends no cookies. Try again.")
    try:
        is_right = login.begin(visit.request, visit.text("name"), visit.form.get("password", [""])[0])
    except TooManyFailures:
        return _form(visit, 429, "Too many wrong passwords. Wait a minute.")
    if not is_right:
        return _form(visit, 401, "There is no such user, or the password is wrong.")
    answer = RedirectResponse(visit.link(), 303)
    answer.delete_cookie(_COOKIE, path=_path(visit))
    return answer


def leave(visit: Visit) -> Response:
    """End the session."""
    login = visit.site.login
    if visit.is_forged or not isinstance(login, PasswordLogin):
        return visit.problem(403, "This form was not made for you", "Load the page again.")
    login.end(visit.request)
    return RedirectResponse(visit.link("login"), 303)


def _form(visit: Visit, status: int, wrong: str) -> Response:
    """Show the form, which carries the value of a cookie that another site can neither read nor send."""
    nonce = secrets.token_urlsafe()
    answer = visit.page("login.html", status, wrong=wrong, login_token=nonce)
    secure = is_secure(visit.request)
    answer.set_cookie(_COOKIE, nonce, _SECONDS, path=_path(visit), httponly=True, samesite="strict", secure=secure)
    return answer


def _path(visit: Visit) -> str:
    return str(visit.request.scope.get("root_path") or "/")
