"""One request: who asks, for what, and the ways to answer."""

from __future__ import annotations

import re
from functools import cached_property
from hmac import compare_digest
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

import mqpg
from mqpg.connection.dsn import describe
from mqpg.status.finding import Row
from mqpg.status.half_messages import bodies
from mqpg.status.merging import merged
from mqpg.values.errors import InvalidArgument, NotFound, NotGranted, SchemaTooOld

from .login import PasswordLogin, User
from .remedies import Explained, explained
from .rendering import MOST_SHOWN
from .site import Site

__all__ = ["PageRequest"]

_BIGINT = 2**63 - 1
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_MOST_CAUSES = 50
_AGAIN = "4"  # seconds after which a page about a broker that is away is loaded again


class PageRequest(Request):
    """A request to the dashboard. `fields` are those of its form; empty for GET."""

    def __init__(self, site: Site, scope: Scope, fields: dict[str, list[str]]) -> None:
        super().__init__(scope)
        self.site, self.fields = site, fields

    @cached_property
    def user(self) -> User | None:
        """Who asks. None: no known user, or there is no login."""
        return None if self.site.login is None else self.site.login.user(self)

    @property
    def may_read(self) -> bool:
        """Whether pages are shown."""
        return self.user is not None or self.site.login is None

    @property
    def may_act(self) -> bool:
        """Whether forms are shown and accepted."""
        return self.site.actions and self.user is not None

    @property
    def is_forged(self) -> bool:
        """Whether a form comes from another site, or was made for another user."""
        site = self.headers.get("Sec-Fetch-Site", "same-origin")
        if self.user is None or site not in ("same-origin", "none"):
            return True
        return not compare_digest(self.text("token").encode(), self.user.token.encode())

    @property
    def is_part(self) -> bool:
        """Whether a part of a page is asked for, by a page that renews itself."""
        return "HX-Request" in self.headers

    @property
    def mq(self) -> mqpg.Client:
        """The client of the broker."""
        return self.site.source.client()

    def rows(self, query: str, **values: Any) -> list[Row]:
        """Run a query that only reads; see `Source.rows`."""
        return self.site.source.rows(query, values or None)

    def message_body(self, message_id: int) -> Row | None:
        """The key and the beginning of the payload; see `bodies`. None if it cannot be read."""
        return bodies(self.site.source.rows, [message_id], MOST_SHOWN + 1).get(message_id)

    def why(self, about: int | str, topic: str | None = None, *, sent_to: str | None = None) -> list[Explained] | None:
        """What holds something up; see `Client.why`. `sent_to` is the topic of a message, if known.

        None if the broker cannot say, for example to a role that may not ask. The page is worth
        showing without it.
        """
        try:
            with self.site.source.reading() as conn:
                causes = merged(self.mq.why(about, topic, conn=conn))[:_MOST_CAUSES]
        except (NotGranted, NotFound, InvalidArgument, SchemaTooOld):
            return None
        here = self.url.path
        return [explained(one, about, topic or sent_to, self.may_act, here, self.link) for one in causes]

    def text(self, name: str) -> str:
        """A field of the form or the query, without blanks around it; empty if there is none."""
        given = self.fields.get(name, [""])[0] if self.method == "POST" else self.query_params.get(name, "")
        return given.replace("\x00", "").strip()

    def number(self, name: str) -> int | None:
        """The same as a number that PostgreSQL takes. None if it is missing."""
        given = self.text(name)
        if not given:
            return None
        if not _NUMBER.fullmatch(given) or abs(int(given)) > _BIGINT:
            raise InvalidArgument(f"{name} must be a number, not {given[:40]!r}")
        return int(given)

    def link(self, *parts: object, **query: object) -> str:
        """The address of another page of this dashboard, wherever it is mounted."""
        path = "".join(f"/{quote(str(part), safe='')}" for part in parts) or "/"
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return str(self.scope.get("root_path", "")) + path + (f"?{urlencode(given)}" if given else "")

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a template."""
        user = self.user
        text = self.site.templates.get_template(template).render(
            link=self.link,
            here=self.url.path.removeprefix(self.scope.get("root_path", "")),
            user=user,
            may_act=self.may_act,
            can_log_out=isinstance(self.site.login, PasswordLogin),
            is_part=self.is_part,
            token=user.token if user else "",
            # Where the broker is, is nothing for those who have not logged in.
            broker_name=describe(self.site.source.dsn) if self.may_read else "",
            **values,
        )
        return HTMLResponse(text, status)

    def problem(self, status: int, title: str, why: object, *, again: bool = False) -> Response:
        """Say what is wrong; with `again` the browser asks again by itself."""
        template = "problem_part.html" if self.is_part else "problem.html"
        answer = self.render(template, status, title=title, why=" ".join(str(why).split()), again=again)
        if again and not self.is_part and self.method == "GET":
            answer.headers["Refresh"] = _AGAIN
        return answer

    def to_login(self) -> Response:
        """Ask for the password first, or say that the proxy has named no user."""
        if not isinstance(self.site.login, PasswordLogin):
            return self.problem(403, "No user is logged in", "No trusted proxy has sent the name of a user.")
        target = self.link("login")
        if self.is_part:
            return Response(status_code=204, headers={"HX-Redirect": target})
        return RedirectResponse(target, 303)
