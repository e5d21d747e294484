"""The stream of the overview over HTTP, from a server on a real port."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

import mqpg.web
from tests.support.broker import Session
from tests.support.waiting import eventually
from tests.web.serving import serving
from tests.web.story import PASSWORD, Story, token_of


@pytest.fixture
def clients() -> Iterator[Callable[[str], httpx.Client]]:
    """Makes visitors of an address: `clients("http://127.0.0.1:8765")`."""
    with ExitStack() as stack:
        yield lambda address: stack.enter_context(httpx.Client(base_url=address, trust_env=False, timeout=60))


def events(stream: httpx.Response) -> Iterator[str]:
    """The data of each event, as a browser puts them together."""
    data: list[str] = []
    for line in stream.iter_lines():
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield html.unescape("\n".join(data))
            data = []


def until(stream: Iterator[str], words: str) -> str:
    """The first event with these words."""
    return next(one for one in stream if words in one)


def log_in(client: httpx.Client, name: str = "ada") -> None:
    fields = {"token": token_of(client.get("/login").text), "name": name, "password": PASSWORD}
    assert client.post("/login", data=fields).status_code == 303


def test_each_change_is_sent(dsn: str, story: Story, mq: Session, clients: Callable[[str], httpx.Client]) -> None:
    with serving(dsn) as address, clients(address).stream("GET", "/events") as stream:
        assert clients(address).head("/events").status_code == 200, "and it ends"
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in stream.headers["content-security-policy"]
        found = events(stream)
        first = next(found)
        assert "group news of topic returns is paused with 4 messages unread" in first
        assert "late-comer" not in first
        assert "hx-get" not in first, "what a stream renews does not ask"
        mq.call("subscribe", "late-comer", "returns")
        assert "Half messages" in until(found, "late-comer")


def test_all_visitors_get_the_same(dsn: str, story: Story, clients: Callable[[str], httpx.Client]) -> None:
    with serving(dsn) as address, ExitStack() as stack:
        streams = [events(stack.enter_context(clients(address).stream("GET", "/events"))) for _ in range(3)]
        seen = [next(one) for _ in range(2) for one in streams]
        assert len(set(seen)) < len(seen), "made once, not for each of them"


def test_too_many_streams_are_refused(dsn: str, story: Story, clients: Callable[[str], httpx.Client]) -> None:
    with serving(dsn, password=PASSWORD) as address, ExitStack() as stack:
        ada, eve = clients(address), clients(address)
        log_in(ada, "ada")
        log_in(eve, "eve")
        open_ones = [stack.enter_context(ada.stream("GET", "/events")) for _ in range(4)]
        assert [one.status_code for one in open_ones] == [200] * 4
        refused = ada.get("/events")
        assert (refused.status_code, "too many streams are open" in refused.text) == (503, True)
        with eve.stream("GET", "/events") as another:
            assert another.status_code == 200, "each visitor has some"
        open_ones[0].close()

        def is_free() -> bool:
            with ada.stream("GET", "/events") as again:
                return again.status_code == 200

        eventually(is_free)


def test_a_stream_ends_with_its_session(dsn: str, story: Story, clients: Callable[[str], httpx.Client]) -> None:
    with serving(dsn, password=PASSWORD) as address:
        ada = clients(address)
        assert ada.get("/events").headers["hx-redirect"] == "/login"
        log_in(ada)
        with ada.stream("GET", "/events") as stream:
            found = events(stream)
            next(found)
            page = ada.get("/topics").text
            assert ada.post("/logout", data={"token": token_of(page)}).status_code == 303
            list(found)  # it ends, and in order


def test_a_stream_ends_with_the_server(dsn: str, story: Story, clients: Callable[[str], httpx.Client]) -> None:
    with ExitStack() as stack:
        with serving(dsn) as address:
            found = events(stack.enter_context(clients(address).stream("GET", "/events")))
            next(found)
        list(found)  # the server did not wait for it, and it ended in order


def test_a_stream_survives_the_database(own_server: Any, clients: Callable[[str], httpx.Client]) -> None:
    with serving(own_server.dsn) as address, clients(address).stream("GET", "/events") as stream:
        found = events(stream)
        assert "Half messages" in next(found)
        own_server.server.stop()
        assert "hx-get" not in until(found, "The broker does not answer")
        part = clients(address).get("/live", headers={"HX-Request": "true"})
        assert (part.status_code, 'hx-trigger="every 3s"' in part.text) == (503, True), "who has no stream asks again"
        own_server.server.start()
        until(found, "Half messages")


def test_an_unknown_server_is_not_held_up(dsn: str, story: Story) -> None:
    """Without a word on whether the server is stopping, the overview asks."""
    app = mqpg.web.app(dsn)
    client = TestClient(app, "http://localhost")
    assert client.get("/events").status_code == 404
    page = client.get("/").text
    assert "sse-connect" not in page
    assert 'hx-trigger="every 3s"' in page
    app.state.site.source.close()
