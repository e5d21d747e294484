"""A TCP proxy before a server, which cuts, delays, silences or parts connections."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

__all__ = ["Proxy", "proxy"]

_PIECE, _PAUSE = 400, 0.2  # bytes, and seconds before each of them, of a slow connection
_FINAL = (b"COMMIT", b"mqpg.commit", b"mqpg.ack")


@dataclass(eq=False)
class _Link:
    """One connection through the proxy."""

    name: str
    silent: bool = False
    cut: bool = False  # no answer gets through any more


class Proxy:
    """Forwards to a server. It runs in a thread.

    Args:
        names: Who connects. Each name has a port of its own, so that the proxy knows it.

    Attributes:
        down: While it is set, new connections are closed at once.
        silent: While it is set, all bytes vanish and no connection is closed.
        swallow_notifications: While it is set, notifications get lost, as behind a pooler that gives
            the listening session to another client.
        requests: How many times a client has sent something.
    """

    def __init__(self, host: str, port: int, names: Sequence[str] = ("all",)) -> None:
        self._target = (host, port)
        self._links: set[_Link] = set()
        self._trap: tuple[bytes, bool, bool] | None = None
        self._cut_until = self._slow_until = 0.0
        self._apart_until: dict[str, float] = {}
        self.cuts = self.requests = 0
        self.down = self.silent = self.swallow_notifications = False
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.ports = asyncio.run_coroutine_threadsafe(self._listen(names), self._loop).result()
        self.port = next(iter(self.ports.values()))

    def cut_at(self, needle: bytes, *, forward: bool, stay_down: bool = False) -> None:
        """Cut the connection that next sends these bytes.

        Args:
            needle: The bytes.
            forward: Whether the server receives them. The answer is lost in any case.
            stay_down: Set `down` then.
        """
        self._trap = (needle, forward, stay_down)

    def cut(self, seconds: float) -> None:
        """For so long, cut a connection that commits or acknowledges.

        The server has received that, and the answer is lost. Returns when the time is over.
        """
        self._cut_until = time.monotonic() + seconds
        time.sleep(seconds)

    def half_open(self) -> None:
        """Let nothing of the connections that exist arrive any more, and close none."""
        for link in list(self._links):
            link.silent = True

    def slow(self, seconds: float) -> None:
        """For so long, pass 2 kB in a second on each connection in each direction, 200 ms late."""
        self._slow_until = time.monotonic() + seconds

    def part(self, seconds: float, names: Sequence[str]) -> None:
        """For so long, let nothing pass between these names and the server.

        No data, no new connection, and no end of one. What was sent meanwhile arrives afterwards, as
        TCP repeats it.
        """
        self._apart_until |= dict.fromkeys(names, time.monotonic() + seconds)

    def close(self) -> None:
        """End it, with all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self, names: Sequence[str]) -> dict[str, int]:
        self._servers = [await asyncio.start_server(partial(self._link, name), "127.0.0.1", 0) for name in names]
        ports = [server.sockets[0].getsockname()[1] for server in self._servers]
        return dict(zip(names, ports, strict=True))

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close

    async def _together(self, name: str) -> None:
        """Wait until nothing is between this name and the server."""
        while (left := self._apart_until.get(name, 0.0) - time.monotonic()) > 0:
            await asyncio.sleep(left)

    async def _link(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link, ends, ways = _Link(name), [writer], []
        try:
            await self._together(name)
            if self.down:
                return
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            ends.append(far_writer)
            self._links.add(link)
            ways = [
                asyncio.ensure_future(self._requests(link, reader, far_writer)),
                asyncio.ensure_future(self._answers(link, far_reader, writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            await self._together(name)  # the other end learns of the end only then
        except OSError:
            pass  # the server is away
        finally:
            self._links.discard(link)
            for way in ways:
                way.cancel()
            for end in ends:
                end.close()

    async def _requests(self, link: _Link, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                self.requests += 1
                if self._trap is not None and self._trap[0] in data and not self.silent:
                    (_, forward, self.down), self._trap = self._trap, None
                    self.cuts += 1
                    link.cut = True
                    if forward:
                        target.write(data)
                        await target.drain()
                    return
                if time.monotonic() < self._cut_until and any(word in data for word in _FINAL):
                    link.cut = True
                await self._pass_on(link, data, target)

    async def _answers(self, link: _Link, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if link.cut and not link.silent:
                    return  # the answer is lost, and the connection with it
                await self._pass_on(link, _without_notifications(data) if self.swallow_notifications else data, target)

    async def _pass_on(self, link: _Link, data: bytes, target: asyncio.StreamWriter) -> None:
        """Write the data, piece by piece while connections are slow."""
        if link.silent or self.silent:
            return
        await self._together(link.name)
        while data:
            size = len(data)
            if time.monotonic() < self._slow_until:
                await asyncio.sleep(_PAUSE)
                size = _PIECE
            target.write(data[:size])
            await target.drain()
            data = data[size:]


def _without_notifications(data: bytes) -> bytes:
    """Remove notifications, which come alone to an idle session: type A, length, the rest."""
    while data[:1] == b"A" and len(data) >= 5:
        data = data[1 + int.from_bytes(data[1:5], "big") :]
    return data


@contextmanager
def proxy(host: str, port: int) -> Iterator[Proxy]:
    """A running proxy."""
    found = Proxy(host, port)
    try:
        yield found
    finally:
        found.close()
