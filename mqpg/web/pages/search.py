"""Search: a message by its id, or by topic, key, payload and the time when it was sent."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from starlette.responses import RedirectResponse, Response

from mqpg.status.finding import Row
from mqpg.values.errors import Error, InvalidArgument, InvalidFilter

from ..request import PageRequest
from ..scan import MOST_FOUND, MOST_LOOKED_AT, MOST_QUEUES, Scan, SearchQuery, scan

__all__ = ["page"]

_FIELDS = ("id", "topic", "key", "path", "at", "until", "queue")
_BY_KEY = """
select f.message_id, f.queue_id, f.queue_offset, f.state, f.born_at, left(f.payload::text, 300) as payload
from mqpg.find_by_key(%(topic)s, %(key)s) as f
where (%(since)s::timestamptz is null or f.born_at >= %(since)s)
    and (%(until)s::timestamptz is null or f.born_at < %(until)s)
    and (%(queue)s::int is null or f.queue_id = %(queue)s)
    and (%(before)s::bigint is null or f.message_id < %(before)s)
    and (%(path)s::jsonpath is null
        or mqpg._path_matches(f.payload, %(path)s::jsonpath, jsonb_build_object('key', %(key)s::text)))
order by f.message_id desc limit %(limit)s
"""
_TIME = "select cast(%(at)s as timestamptz) as at"
# An unknown variable is an error at run time only.
_PATH = """
select jsonb_path_exists('{}', cast(%(path)s as jsonpath), '{"headers": null, "key": null, "tag": null}', true)
"""
_OF_PATHS = ("22", "42")  # classes of SQLSTATE: the errors of a jsonpath
# find_by_key has neither.
_NOT_BY_KEY = re.compile(r'\$"?(headers|tag)\b')
_MODE = re.compile(r"\s*((?:strict|lax)\s)?(.*)", re.DOTALL)
_REST = re.compile(r"[0-9]{1,5}:[0-9]{1,18}(,[0-9]{1,5}:[0-9]{1,18})*")


def page(request: PageRequest) -> Response:
    """Show the forms, and what was found."""
    asked = {name: request.text(name) for name in _FIELDS}
    if asked["id"]:
        return RedirectResponse(request.link("messages", request.number("id")), 303)
    if not asked["topic"]:
        return _answer(request, asked)
    try:
        path = _condition(request, asked["path"]) if asked["path"] else None
    except InvalidFilter as error:
        return _answer(request, asked, 400, problem=f"This is no jsonpath: {error}")
    query = SearchQuery(
        topic=asked["topic"],
        queue=request.number("queue"),
        key=asked["key"] or None,
        path=path,
        since=_time(request, "Sent from", asked["at"]),
        until=_time(request, "Sent before", asked["until"]),
        rest=_rest(request.text("rest")),
    )
    if query.key is not None and not _NOT_BY_KEY.search(asked["path"]):
        found, further = _by_key(request, query, asked)
        return _answer(request, asked, found=found, further=further)
    scanned = scan(request, query)
    return _answer(request, asked, found=scanned.found, scanned=scanned, further=_further(request, asked, scanned))


def _answer(request: PageRequest, asked: dict[str, str], status: int = 200, **values: Any) -> Response:
    shown: dict[str, Any] = {"found": None, "scanned": None, "further": None, "problem": None} | values
    limits = {"most_looked_at": MOST_LOOKED_AT, "most_queues": MOST_QUEUES}
    return request.render("search.html", status, asked=asked, **limits, **shown)


def _by_key(request: PageRequest, query: SearchQuery, asked: dict[str, str]) -> tuple[list[Row], str | None]:
    """Messages with a key in every state, found by the index, and the address of older ones."""
    names = ("topic", "key", "path", "since", "until", "queue")
    values = {name: getattr(query, name) for name in names} | {"before": request.number("before")}
    found = request.rows(_BY_KEY, limit=MOST_FOUND + 1, **values)
    if len(found) <= MOST_FOUND:
        return found, None
    return found[:MOST_FOUND], request.link("search", **asked, before=found[MOST_FOUND - 1]["message_id"])


def _condition(request: PageRequest, path: str) -> str:
    """Make a condition of a jsonpath, which is true or false.

    A path that is no condition, such as `$.items[*] ? (@.price > 9)`, is fulfilled by a payload in
    which it finds something. Raises InvalidFilter if it is no jsonpath.
    """
    if error := _error(request, path):
        raise InvalidFilter(error)
    exists = _inside(path, "exists ({})")
    return exists if _error(request, _inside(path, "!({})")) and not _error(request, exists) else path


def _inside(path: str, form: str) -> str:
    """A path within another one. Its mode comes first in both."""
    found = _MODE.fullmatch(path)
    mode, rest = (found[1] or "", found[2]) if found else ("", path)
    return mode + form.format(rest)


def _error(request: PageRequest, path: str) -> str | None:
    """What is wrong with a jsonpath. None: nothing."""
    try:
        request.rows(_PATH, path=path)
    except Error as error:
        if (error.sqlstate or "")[:2] in _OF_PATHS:
            return str(error)
        raise
    return None


def _time(request: PageRequest, name: str, text: str) -> datetime | None:
    """A time, in any notation of PostgreSQL. None if the field is empty."""
    if not text:
        return None
    try:
        at = request.rows(_TIME, at=text)[0]["at"]
    except Error as error:
        if (error.sqlstate or "").startswith("22"):
            raise InvalidArgument(f"{name}: {error}") from error
        raise
    if not isinstance(at, datetime):  # infinity
        raise InvalidArgument(f"{name}: {text} is no time")
    return at


def _rest(text: str) -> dict[int, int] | None:
    """Where the look before ended: `0:120,3:77` by queue."""
    if not text:
        return None
    if not _REST.fullmatch(text):
        raise InvalidArgument(f"rest must be queues with offsets, not {text[:40]!r}")
    return {int(queue): int(place) for queue, _, place in (one.partition(":") for one in text.split(","))}


def _further(request: PageRequest, asked: dict[str, str], scanned: Scan) -> str | None:
    """The address of the next look. None: everything was looked at."""
    if not scanned.rest:
        return None
    return request.link("search", **asked, rest=",".join(f"{queue}:{place}" for queue, place in scanned.rest.items()))
