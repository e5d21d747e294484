"""The login with a password, and the logout."""

from __future__ import annotations

import secrets
from hmac import compare_digest

from starlette.responses import RedirectResponse, Response

from ..login import PasswordLogin, TooManyFailures, is_secure
from ..request import PageRequest

__all__ = ["leave", "page", "submit"]

_COOKIE = "mqpg_login"
_SECONDS = 3600


def page(request: PageRequest) -> Response:
    """Show the form."""
    if request.may_read or not isinstance(request.site.login, PasswordLogin):
        return RedirectResponse(request.link(), 303)
    return _form(request, 200, "")


def submit(request: PageRequest) -> Response:
    """Compare the password, and begin a session."""
    login, nonce = request.site.login, request.cookies.get(_COOKIE, "")
    if not isinstance(login, PasswordLogin):
        return RedirectResponse(request.link(), 303)
    if not nonce or not compare_digest(request.text("token").encode(), nonce.encode()):
        return _form(request, 403, "This form is too old, or your browser sends no cookies. Try again.")
    try:
        is_right = login.begin(request, request.text("name"), request.fields.get("password", [""])[0])
    except TooManyFailures:
        return _form(request, 429, "Too many wrong passwords. Wait a minute.")
    if not is_right:
        return _form(request, 401, "There is no such user, or the password is wrong.")
    answer = RedirectResponse(request.link(), 303)
    answer.delete_cookie(_COOKIE, path=_path(request))
    return answer


def leave(request: PageRequest) -> Response:
    """End the session."""
    login = request.site.login
    if request.is_forged or not isinstance(login, PasswordLogin):
        return request.problem(403, "This form was not made for you", "Load the page again.")
    login.end(request)
    return RedirectResponse(request.link("login"), 303)


def _form(request: PageRequest, status: int, wrong: str) -> Response:
    """Show the form, which carries the value of a cookie that another site can neither read nor send."""
    nonce = secrets.token_urlsafe()
    answer = request.render("login.html", status, wrong=wrong, login_token=nonce)
    secure = is_secure(request)
    answer.set_cookie(_COOKIE, nonce, _SECONDS, path=_path(request), httponly=True, samesite="strict", secure=secure)
    return answer


def _path(request: PageRequest) -> str:
    return str(request.scope.get("root_path") or "/")
