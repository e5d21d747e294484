"""A TCP proxy before a broker, `python -m mqpg.chaos.proxy PORT`, which takes commands.

Commands come on standard input, one in each line:

- `cut SECONDS`: for so long, a connection that sends COMMIT or an acknowledgement is cut after the
  server has received it and before the answer comes back.
- `half SECONDS`: nothing of the connections that exist arrives any more, and none is closed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import suppress

__all__ = ["ProxyProcess", "main"]

_FINAL = (b"COMMIT", b"mqpg.commit", b"mqpg.ack")


class _Link:
    """One connection through the proxy."""

    def __init__(self) -> None:
        self.silent = False
        self.swallow = False


class _Proxy:
    def __init__(self, port: int) -> None:
        self._port = port
        self._links: set[_Link] = set()
        self._cut_until = 0.0

    async def serve(self) -> None:
        server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            word, seconds = line.split()
            if word == "cut":
                self._cut_until = time.monotonic() + float(seconds)
            else:
                for link in self._links:
                    link.silent = True

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        link = _Link()
        self._links.add(link)
        ways = [
            asyncio.ensure_future(self._pump(link, reader, far_writer, requests=True)),
            asyncio.ensure_future(self._pump(link, far_reader, writer, requests=False)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
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
                target.write(data)
                await target.drain()


class ProxyProcess:
    """The proxy in a process of its own.

    Args:
        port: The port of the server behind it.
    """

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mqpg.chaos.proxy", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def run(self, word: str, seconds: float) -> None:
        """Give it a command, and wait until the fault is over."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word} {seconds}\n")
        self._process.stdin.flush()
        time.sleep(seconds)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def main(port: str) -> None:
    """Run the proxy until standard input ends."""
    asyncio.run(_Proxy(int(port)).serve())


if __name__ == "__main__":
    main(sys.argv[1])
