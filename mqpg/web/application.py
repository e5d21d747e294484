"""The ASGI application: its routes, and what happens to errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mqpg.status import Source
from mqpg.values import errors
from mqpg.values.errors import ConfigurationError

from .headers import SecurityHeaders
from .login import LOOPBACK, Login, PasswordLogin, ProxyLogin, Sessions
from .pages import (
    actions,
    audits,
    dead_letters,
    groups,
    half_messages,
    login,
    messages,
    overview,
    search,
    storage,
    topics,
    workers,
)
from .passwords import read_users
from .reports import Reports
from .request import PageRequest
from .site import Site

__all__ = ["app"]

logger = logging.getLogger(__name__)

_TIMED_OUT = "57014"
_RIGHTS = (
    "The pages need mqpg grant auditor ROLE and mqpg grant receive '*' '*' ROLE, and the actions need mqpg grant "
    "operator ROLE."
)
_LARGEST_FORM = 100_000  # bytes
_FOLDER = Path(__file__).parent / "static"
Page = Callable[[PageRequest], Response]

_PAGES: list[tuple[str, Page]] = [
    ("/", overview.page),
    ("/live", overview.live),
    ("/topics", topics.listing),
    ("/topics/{topic}", topics.page),
    ("/topics/{topic}/{queue_id}/{queue_offset}", messages.at_offset),
    ("/groups", groups.listing),
    ("/groups/{group}/{topic}", groups.page),
    ("/half-messages", half_messages.listing),
    ("/half-messages/{handle}", half_messages.page),
    ("/search", search.page),
    ("/messages/{message_id}", messages.page),
    ("/dead-letters", dead_letters.overview),
    ("/dead-letters/{group}/{topic}", dead_letters.listing),
    ("/storage", storage.page),
    ("/workers", workers.page),
    ("/audits", audits.page),
    ("/audits/{name}", audits.report),
]


def app(
    dsn: str | None = None,
    *,
    password_file: str | Path | None = None,
    user_header: str | None = None,
    trusted_proxies: Sequence[str] | None = None,
    actions: bool = False,
    hosts: Sequence[str] | None = None,
    reports: str | Path | None = None,
) -> Starlette:
    """Make the dashboard of one broker.

    It connects when it is first asked. While the broker is away, every page says so and comes back
    by itself.

    Args:
        dsn: The broker's database. Its role decides what the pages show and what actions may do.
            None: the sources that `mqpg.connect` names.
        password_file: A file with the users who may log in and the hashes of their passwords, as
            `mqpg web --add-user` writes it. It is read once. None: there is no login.
        user_header: The header in which a proxy sends the name of the user, for example
            "X-Forwarded-User". The proxy must set it on every request, and replace one that a
            browser has sent. None: such a header counts for nothing.
        trusted_proxies: Addresses or networks whose `user_header` counts. They are compared with
            the address of the connection as the server reports it, so a server that rewrites it
            from `X-Forwarded-For` must not (uvicorn: `proxy_headers=False`). None: only those of
            this machine.
        actions: Whether users may change something.
        hosts: The host names that requests may name, against a foreign name that resolves to this
            server. None: any.
        reports: A folder with the pages that `mqpg audit --html` has written. Users who may read
            the dashboard may read them. None: it shows none.

    Returns:
        The application. Run it in one process, which holds its sessions.

    Raises:
        ConfigurationError: Actions without users, both kinds of users, a password file that cannot
            be used, no database is named, or `reports` is no folder.
    """
    known = _login(password_file, user_header, trusted_proxies)
    if actions and known is None:
        raise ConfigurationError("actions need users: give a password file, or a header with the user's name")
    site = Site(Source(dsn, "mqpg web", 8), known, actions, reports=None if reports is None else Reports(reports))
    middleware = [Middleware(SecurityHeaders)]
    if hosts is not None:
        middleware.append(Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False))
    middleware.append(Middleware(Sessions))
    made = Starlette(routes=_routes(site), middleware=middleware)
    made.state.site = site
    return made


def _login(
    password_file: str | Path | None, user_header: str | None, trusted_proxies: Sequence[str] | None
) -> Login | None:
    if password_file is not None and user_header is not None:
        raise ConfigurationError("users are those of the password file or of the header, not both")
    if trusted_proxies is not None and user_header is None:
        raise ConfigurationError("a proxy is trusted for the header that names the user: name the header, too")
    if user_header is not None:
        return ProxyLogin(user_header, LOOPBACK if trusted_proxies is None else trusted_proxies)
    return None if password_file is None else PasswordLogin(read_users(Path(password_file)))


def _routes(site: Site) -> list[Route | Mount]:
    routes: list[Route | Mount] = [Route(path, _endpoint(site, page), methods=["GET"]) for path, page in _PAGES]
    return [
        *routes,
        Route("/login", _endpoint(site, login.page, public=True), methods=["GET"]),
        Route("/login", _endpoint(site, login.submit, public=True), methods=["POST"]),
        Route("/logout", _endpoint(site, login.leave), methods=["POST"]),
        Route("/actions/{action}", _endpoint(site, actions.submit), methods=["POST"]),
        Route("/healthz", _healthz, methods=["GET"]),
        Mount("/static", StaticFiles(directory=_FOLDER)),
        Route("/{path:path}", _endpoint(site, _missing), methods=["GET"]),
    ]


def _endpoint(site: Site, page: Page, *, public: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """Run a page in a thread, because it waits for the database."""

    async def endpoint(request: Request) -> Response:
        fields: dict[str, list[str]] = {}
        if request.method == "POST":
            body = await _body(request)
            if body is None:
                return PlainTextResponse("the form is too large", 413)
            fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        return await run_in_threadpool(_show, PageRequest(site, request.scope, fields), page, public)

    return endpoint


async def _body(request: Request) -> bytes | None:
    """The body. None if it is larger than any form of these pages."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST_FORM:
            return None
        parts.append(part)
    return b"".join(parts)


def _show(request: PageRequest, page: Page, public: bool) -> Response:
    """Show a page, or ask for the login first, or say what is wrong."""
    if not public and not request.may_read:
        return request.to_login()
    try:
        return page(request)
    except (errors.ConnectionFailed, errors.SchemaError) as error:
        return request.problem(503, "The broker does not answer", error, again=True)
    except errors.NotGranted as error:
        return request.problem(403, "The dashboard's role may not do this", f"{error}. {_RIGHTS}")
    except errors.NotFound as error:
        return request.problem(404, "There is no such thing", error)
    except errors.Error as error:
        if error.sqlstate == _TIMED_OUT:
            return request.problem(503, "This takes too long", "The broker gave up after 15 seconds. Ask for less.")
        return request.problem(400, "The broker refused this", error)
    except Exception:
        logger.exception("page failed", extra={"path": request.url.path})
        return request.problem(500, "This page failed", "The log of the dashboard says why.")


def _missing(request: PageRequest) -> Response:
    return request.problem(404, "There is no such page", request.url.path)


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")
