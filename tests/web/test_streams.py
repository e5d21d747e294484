"""The stream of the overview over HTTP, from a server on a real port."""

from __future__ import annotations

import asyncio
import html
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx2 as httpx
import pytest
from starlette.responses import Response
from starlette.testclient import TestClient

import mqpg.web
from mqpg.status import Source
from mqpg.web import streams
from mqpg.web.pages import overview
from mqpg.web.streams import LiveStream, Streams
from mqpg.web.view import View
from mqpg.web.visit import Visit
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


def test_all_visitors_get_the_same(
    dsn: str, story: Story, clients: Callable[[str], httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Response] = []
    make = overview.live

    def live(visit: Visit) -> Response:
        made.append(make(visit))
        return made[-1]

    monkeypatch.setattr(overview, "live", live)
    monkeypatch.setattr(streams, "_PACE", 600.0)
    with serving(dsn) as address, ExitStack() as stack:
        found = [events(stack.enter_context(clients(address).stream("GET", "/events"))) for _ in range(3)]
        assert len({next(one) for one in found}) == 1
    assert len(made) == 1, "made once, not for each of them"


async def parts_of(opened: LiveStream | None, number: int) -> list[str]:
    """The first parts of a stream, which its reader leaves then."""
    assert opened is not None
    body = opened.body_iterator
    return [str(await asyncio.wait_for(anext(body), 10)) for _ in range(number)]


async def test_streams_that_come_and_go_share_one_thread(dsn: str) -> None:
    begun: list[int] = []
    is_quick = threading.Event()

    def render() -> str:
        begun.append(1)
        assert is_quick.wait(60)
        return "the live part"

    open_ones, view = Streams(lambda: False), View(Source(dsn, "test"))
    for n in range(5):
        opened = open_ones.open(f"visitor {n}", view, "/", render, lambda: True)
        waiting = asyncio.create_task(parts_of(opened, 2))
        del opened
        while not begun:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # by now this one would have begun too
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        del waiting
    last = asyncio.create_task(parts_of(open_ones.open("the last", view, "/", render, lambda: True), 2))
    await asyncio.sleep(0.05)
    is_quick.set()
    assert "data: the live part" in (await last)[1]
    assert len(begun) == 1


async def test_a_live_part_that_fails_ends_its_streams(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their browsers come again, and get it as soon as it can be made."""
    monkeypatch.setattr(streams, "_PACE", 0.0)
    outcomes = iter(["fails", "the live part"])

    def render() -> str:
        if (outcome := next(outcomes)) == "fails":
            raise ZeroDivisionError
        return outcome

    open_ones, view = Streams(lambda: False), View(Source(dsn, "test"))
    first = open_ones.open("ada", view, "/", render, lambda: True)
    again = open_ones.open("ada", view, "/", render, lambda: True)
    with pytest.raises(ZeroDivisionError):
        await parts_of(first, 2)
    assert "data: the live part" in (await parts_of(again, 2))[1]


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
