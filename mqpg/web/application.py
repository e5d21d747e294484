"""The ASGI application: its routes, and what happens to errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import get_args
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
from mqpg.values.choices import Login
from mqpg.values.errors import ConfigurationError

from .headers import SecurityHeaders
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
from .reports import Reports
from .rights import refusal
from .role_login import RoleLogin
from .security import SESSION_SECONDS, Security
from .site import Site
from .streams import Streams
from .view import View
from .visit import Visit

__all__ = ["app"]

logger = logging.getLogger(__name__)

_TIMED_OUT = "57014"
_LARGEST_FORM = 100_000  # bytes
_FOLDER = Path(__file__).parent / "static"
Page = Callable[[Visit], Response]

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
    password: str | None = None,
    login: Login = "password",
    actions: bool = False,
    hosts: Sequence[str] | None = None,
    reports: str | Path | None = None,
    stopping: Callable[[], bool] | None = None,
) -> Starlette:
    """Make the dashboard of one broker.

    It connects when it is first asked. While the broker is away, every page says so and comes back
    by itself.

    Args:
        dsn: The broker's database. Its role decides what the pages show and what actions may do.
            None: the sources that `mqpg.connect` names.
        password: The password that all share, without which no page is shown. None: everybody who
            reaches the application may read, unless roles log in.
        login: "password": a visitor gives any name and the `password`. "role": a visitor gives the
            name and the password of a role of the database. PostgreSQL verifies them, and the
            rights of that role decide what the pages show and what actions may do. The role of the
            DSN is not used then.
        actions: Whether those who have logged in may change something.
        hosts: The host names that requests may name, against a foreign name that resolves to this
            server. None: any.
        reports: A folder with the pages that `mqpg audit --html` has written. Who may read the
            dashboard may read them. None: it shows none.
        stopping: Whether the server that runs the application is stopping, for example
            `lambda: server.should_exit` of a `uvicorn.Server`. The overview then gets its changes
            in a stream, which ends with the server. None: the overview asks every three seconds,
            because a server may wait for a stream that does not end.

    Returns:
        The application. Run it in one process, which holds its sessions.

    Raises:
        ConfigurationError: Actions without a login, an empty password, a password where roles log
            in, no database is named, or `reports` is no folder.
    """
    source = Source(dsn, "mqpg web", 8)
    security = _security(source.dsn, login, password)
    if actions and not security.has_login:
        raise ConfigurationError("actions need a login: give a password, or let roles of the database log in")
    site = Site(
        View(source),
        security,
        actions,
        reports=None if reports is None else Reports(reports),
        streams=None if stopping is None else Streams(stopping),
    )
    middleware = [Middleware(SecurityHeaders)]
    if hosts is not None:
        middleware.append(Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False))
    made = Starlette(routes=_routes(site), middleware=middleware)
    made.state.site = site
    return made


def _security(dsn: str, login: Login, password: str | None) -> Security:
    if login not in get_args(Login):
        raise ConfigurationError(f"login must be one of {', '.join(get_args(Login))}, not {login!r}")
    if password is not None and not password:
        raise ConfigurationError("the password is empty")
    if login == "password":
        return Security(password)
    if password is not None:
        raise ConfigurationError("where roles of the database log in, no password is shared: leave it out")
    return Security(None, RoleLogin(dsn, SESSION_SECONDS))


def _routes(site: Site) -> list[Route | Mount]:
    routes: list[Route | Mount] = [Route(path, _endpoint(site, page), methods=["GET"]) for path, page in _PAGES]
    return [
        *routes,
        Route("/login", _endpoint(site, login.page, public=True), methods=["GET"]),
        Route("/login", _endpoint(site, login.submit, public=True), methods=["POST"]),
        Route("/logout", _endpoint(site, login.leave), methods=["POST"]),
        Route("/actions/{action}", _endpoint(site, actions.submit), methods=["POST"]),
        Route("/events", _events(site), methods=["GET"]),
        Route("/healthz", _healthz, methods=["GET"]),
        Mount("/static", StaticFiles(directory=_FOLDER)),
        Route("/{path:path}", _endpoint(site, _missing), methods=["GET"]),
    ]


def _endpoint(site: Site, page: Page, *, public: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """Run a page in a thread, because it waits for the database."""

    async def endpoint(request: Request) -> Response:
        form: dict[str, list[str]] = {}
        if request.method == "POST":
            body = await _body(request)
            if body is None:
                return PlainTextResponse("the form is too large", 413)
            form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        return await run_in_threadpool(_show, Visit(site, request, form), page, public)

    return endpoint


def _events(site: Site) -> Callable[[Request], Awaitable[Response]]:
    """Send the live part of the overview, and again whenever it has changed."""

    async def endpoint(request: Request) -> Response:
        visit = Visit(site, request, {}, is_streamed=True)
        if not visit.may_read:
            return visit.to_login()
        if request.method == "HEAD":  # which has no end to wait for
            return Response(media_type="text/event-stream")
        if site.streams is None:
            return PlainTextResponse("this dashboard has no stream: ask for /live again and again", 404)
        stream = site.streams.open(
            visit.visitor,
            visit.view,
            visit.link(),
            lambda: bytes(_answer(visit, overview.live).body).decode(),
            lambda: Visit(site, request, {}).may_read,
        )
        if stream is None:
            problem = "too many streams are open: close other tabs, or ask for /live again and again"
            return PlainTextResponse(problem, 503)
        return stream

    return endpoint


async def _body(request: Request) -> bytes | None:
    """The body. None where it is larger than any form of these pages."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST_FORM:
            return None
        parts.append(part)
    return b"".join(parts)


def _show(visit: Visit, page: Page, public: bool) -> Response:
    return _answer(visit, page) if public or visit.may_read else visit.to_login()


def _answer(visit: Visit, page: Page) -> Response:
    """Show a page, or say what is wrong."""
    try:
        return page(visit)
    except (errors.ConnectionFailed, errors.SchemaError) as error:
        return visit.problem(503, "The broker does not answer", error, again=True)
    except errors.NotGranted as error:
        asks_for_role, session = visit.site.security.asks_for_role, visit.session
        whose, role = ("Your role", session.name) if asks_for_role and session else ("The dashboard's role", "ROLE")
        return visit.problem(403, f"{whose} may not do this", refusal(error, role))
    except errors.NotFound as error:
        return visit.problem(404, "There is no such thing", error)
    except errors.Error as error:
        if error.sqlstate == _TIMED_OUT:
            return visit.problem(503, "This takes too long", "The broker gave up after 15 seconds. Ask for less.")
        return visit.problem(400, "The broker refused this", error)
    except Exception:
        logger.exception("page failed", extra={"path": visit.request.url.path})
        return visit.problem(500, "This page failed", "The log of the dashboard says why.")


def _missing(visit: Visit) -> Response:
    return visit.problem(404, "There is no such page", visit.request.url.path)


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")
