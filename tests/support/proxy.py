"""A TCP proxy before a server that cuts connections at a chosen statement."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["Proxy", "proxy"]


class Proxy:
    """Forwards to host:port.

    `cut_at(b"COMMIT", forward=True)` cuts the connection that next sends these bytes. With
    `stay_down` all connections fail from then on, until `down` is False again. With
    `swallow_notifications` notifications get lost, as behind a pooler that gives the listening
    session to another client. While `silent` is set all bytes vanish and no connection is closed,
    as on a connection that is half open.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._trap: tuple[bytes, bool, bool] | None = None
        self.cuts = 0
        self.down = False
        self.silent = False
        self.swallow_notifications = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, needle: bytes, *, forward: bool, stay_down: bool = False) -> None:
        self._trap = (needle, forward, stay_down)

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                if self.down:
                    client.close()
                    continue
                upstream = socket.create_connection(self._target)
                threading.Thread(target=self._pump, args=(client, upstream, True), daemon=True).start()
                threading.Thread(target=self._pump, args=(upstream, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, watched: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self.silent:
                    continue
                if watched and self._trap is not None and self._trap[0] in data:
                    (_, forward, self.down), self._trap = self._trap, None
                    self.cuts += 1
                    # The answer must not get through, so the way back is closed before the request is forwarded.
                    with suppress(OSError):
                        source.shutdown(socket.SHUT_WR)
                    if forward:
                        target.sendall(data)
                    break
                if self.swallow_notifications and not watched:
                    data = _without_notifications(data)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):  # it may be cut already, and is to be closed all the same
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _without_notifications(data: bytes) -> bytes:
    """Remove notifications, which come alone to an idle session: type A, length, the rest."""
    while data[:1] == b"A" and len(data) >= 5:
        data = data[1 + int.from_bytes(data[1:5], "big") :]
    return data


@contextmanager
def proxy(host: str, port: int) -> Iterator[Proxy]:
    """A running proxy."""
    found = Proxy(host, port)
    yield found
    found.close()
