"""The stream of the overview: its live part, sent whenever it has changed (server-sent events)."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from weakref import WeakValueDictionary

import anyio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from .view import View

__all__ = ["LiveStream", "Streams"]

_PACE = 2.0  # seconds between two looks
_ALIVE = 15.0  # seconds of silence after which a proxy may take the connection for a dead one
_GLANCE = 0.5  # seconds between two looks whether the stream is to end
_MOST = 100
# A browser opens six connections to one server for all its tabs. Pages need the rest.
_MOST_OF_ONE = 4
_LINE = re.compile(r"\r\n|\r|\n")


class Feed:
    """What streams send, made once for all of them.

    Args:
        render: Makes it. It may wait for the database.
    """

    def __init__(self, render: Callable[[], str]) -> None:
        self._render = render
        self._made: asyncio.Future[str] | None = None
        self._made_at: float | None = None  # None: it is not ready yet

    async def text(self) -> str:
        """Make it, or return what was made a moment ago."""
        is_old = self._made_at is not None and time.monotonic() - self._made_at >= _PACE
        if self._made is None or is_old:
            self._made, self._made_at = self._make(), None
        # A reader who leaves must not end what others wait for.
        return await asyncio.shield(self._made)

    def _make(self) -> asyncio.Future[str]:
        """Make it in a thread that nobody waits for where the whole process ends.

        The thread keeps the feed, so that those who come while it works find the feed and start no
        other thread.
        """
        loop = asyncio.get_running_loop()
        made: asyncio.Future[str] = loop.create_future()
        made.add_done_callback(self._note)

        def run() -> None:
            put: Callable[[], None]
            try:
                put = partial(made.set_result, self._render())
            except Exception as error:
                put = partial(made.set_exception, error)
            if not loop.is_closed():
                loop.call_soon_threadsafe(put)

        threading.Thread(target=run, name="mqpg web: live part", daemon=True).start()
        return made

    def _note(self, _: asyncio.Future[str]) -> None:
        self._made_at = time.monotonic()


class Streams:
    """The open streams of one dashboard. It belongs to the event loop.

    Args:
        stopping: Whether the server is stopping.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self.stopping = stopping
        self._open: Counter[str] = Counter()
        self._feeds: WeakValueDictionary[tuple[View, str], Feed] = WeakValueDictionary()

    def open(
        self, visitor: str, view: View, root: str, render: Callable[[], str], may_read: Callable[[], bool]
    ) -> LiveStream | None:
        """Open one more stream.

        Args:
            visitor: Who asks.
            view: The broker as the visitor sees it.
            root: Where the dashboard is mounted, to which its links lead.
            render: Makes the live part for all who have the same view and root.
            may_read: Whether the visitor may still read. The stream ends when not.

        Returns:
            The stream. None: there are too many.
        """
        if self._open[visitor] >= _MOST_OF_ONE or self._open.total() >= _MOST:
            return None
        feed = self._feeds.setdefault((view, root), Feed(render))
        self._open[visitor] += 1
        return LiveStream(feed, lambda: may_read() and not self.stopping(), lambda: self._left(visitor))

    def _left(self, visitor: str) -> None:
        self._open -= Counter([visitor])  # which forgets those that have none


class LiveStream(StreamingResponse):
    """A response that ends when the client leaves, or somebody else ends it.

    Args:
        feed: What it sends.
        goes_on: Whether it is to continue.
        leave: Called once at its end.
    """

    def __init__(self, feed: Feed, goes_on: Callable[[], bool], leave: Callable[[], None]) -> None:
        # nginx would keep the parts back until it has enough of them.
        super().__init__(_parts(feed), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._goes_on, self._leave = goes_on, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._end_with_client, receive, group.cancel_scope)
                group.start_soon(self._end_by_others, group.cancel_scope)
                await self.stream_response(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._leave()

    async def _end_with_client(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await self.listen_for_disconnect(receive)
        scope.cancel()

    async def _end_by_others(self, scope: anyio.CancelScope) -> None:
        while self._goes_on():
            await asyncio.sleep(_GLANCE)
        scope.cancel()


async def _parts(feed: Feed) -> AsyncIterator[str]:
    """The events, without end."""
    sent, sent_at = None, time.monotonic()
    yield f"retry: {_PACE * 1000:.0f}\n\n"
    while True:
        text = await feed.text()
        if text != sent:
            sent, sent_at = text, time.monotonic()
            yield _event(text)
        elif time.monotonic() - sent_at >= _ALIVE:
            sent_at = time.monotonic()
            yield ":\n\n"
        await asyncio.sleep(_PACE)


def _event(text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in _LINE.split(text))
    return f"event: live\n{lines}\n"
