"""A TCP proxy before a server, `python -m lab.chaos.proxy PORT NAME…`, which takes commands.

Each name is a port of its own, so that the proxy knows who connects.

Commands come on standard input, one in each line:

- `cut SECONDS`: for so long, a connection that sends COMMIT or an acknowledgement is cut after the
  server has received it and before the answer comes back.
- `half SECONDS`: nothing of the connections that exist arrives any more, and none is closed.
- `slow SECONDS`: for so long, 2 kB in a second pass on each connection in each direction, and each
  packet is 200 ms late.
- `part SECONDS NAME…`: for so long, nothing passes between these names and the server: no data, no
  new connection, and no end of one. What was sent meanwhile arrives afterwards, as TCP repeats it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

__all__ = ["ProxyProcess", "main"]

_PIECE, _PAUSE = 400, 0.2  # bytes, and seconds before each of them, of a slow connection
_FINAL = (b"COMMIT", b"mqpg.commit", b"mqpg.ack")


class _Link:
    """One connection through the proxy."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.silent = False
        self.swallow = False


class _Proxy:
    def __init__(self, port: int) -> None:
        self._port = port
        self._links: set[_Link] = set()
        self._cut_until = self._slow_until = 0.0
        self._apart_until: dict[str, float] = {}

    async def serve(self, names: Sequence[str]) -> None:
        servers = [await asyncio.start_server(partial(self._link, name), "127.0.0.1", 0) for name in names]
        sys.stdout.write(" ".join(str(server.sockets[0].getsockname()[1]) for server in servers) + "\n")
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            word, seconds, *apart = line.split()
            until = time.monotonic() + float(seconds)
            if word == "cut":
                self._cut_until = until
            elif word == "slow":
                self._slow_until = until
            elif word == "part":
                self._apart_until |= dict.fromkeys(apart, until)
            else:
                for link in self._links:
                    link.silent = True

    async def _together(self, name: str) -> None:
        """Wait until nothing is between this name and the server."""
        while (left := self._apart_until.get(name, 0.0) - time.monotonic()) > 0:
            await asyncio.sleep(left)

    async def _link(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._together(name)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        link = _Link(name)
        self._links.add(link)
        ways = [
            asyncio.ensure_future(self._pump(link, reader, far_writer, requests=True)),
            asyncio.ensure_future(self._pump(link, far_reader, writer, requests=False)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        await self._together(name)  # the other end learns of the end only then
        self._links.discard(link)
        for way in ways:
            way.cancel()
        for end in (writer, far_writer):
            end.close()

    async def _pump(
        self, link: _Link, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, requests: bool
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if link.silent:
                    continue
                if requests and time.monotonic() < self._cut_until and any(word in data for word in _FINAL):
                    link.swallow = True
                if not requests and link.swallow:
                    return  # the answer is lost, and the connection with it
                await self._together(link.name)
                await self._pass_on(data, target)

    async def _pass_on(self, data: bytes, target: asyncio.StreamWriter) -> None:
        """Write the data, piece by piece while connections are slow."""
        while data:
            size = len(data)
            if time.monotonic() < self._slow_until:
                await asyncio.sleep(_PAUSE)
                size = _PIECE
            target.write(data[:size])
            await target.drain()
            data = data[size:]


class ProxyProcess:
    """The proxy in a process of its own.

    Args:
        port: The port of the server behind it.
        names: Who connects. Each has a port of its own in `ports`.
    """

    def __init__(self, port: int, names: Sequence[str] = ("all",)) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.chaos.proxy", str(port), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert self._process.stdout is not None
        self.ports = dict(zip(names, map(int, self._process.stdout.readline().split()), strict=True))

    def tell(self, word: str, seconds: float, names: Sequence[str] = ()) -> None:
        """Give it a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join((word, str(seconds), *names)) + "\n")
        self._process.stdin.flush()

    def run(self, word: str, seconds: float, names: Sequence[str] = ()) -> None:
        """Give it a command, and wait until the fault is over."""
        self.tell(word, seconds, names)
        time.sleep(seconds)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def main(port: str, *names: str) -> None:
    """Run the proxy until standard input ends."""
    asyncio.run(_Proxy(int(port)).serve(names))


if __name__ == "__main__":
    main(*sys.argv[1:])
