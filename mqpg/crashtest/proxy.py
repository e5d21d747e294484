"""A proxy between the process that is tried and its PostgreSQL server."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import BinaryIO
from urllib.parse import quote

import psycopg

from mqpg.crashtest import wire
from mqpg.crashtest.fault_injector import FaultInjector, Ruling, Session
from mqpg.values.translation import translate

__all__ = ["Proxy"]

_NONSENSE = "refused by mqpg crashtest"
_REFUSAL = wire.error_response("40P01", "deadlock detected (made by mqpg crashtest)")
# What a client must see of an answer that is held, because it is to go on sending: COPY.
_COPY = b"GHWdc"


class Proxy:
    """Forwards connections to a server, statement by statement, and asks the injector of the run.

    Raises ConnectionFailed if the server does not answer.
    """

    def __init__(self, server: str) -> None:
        try:
            with psycopg.connect(server) as connection:
                info = connection.info
                self._target = (info.host, info.port)
                self.user, self.password = info.user, info.password
        except psycopg.Error as error:
            raise translate(error) from error
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.injector = FaultInjector()
        self._links: list[_Link] = []
        threading.Thread(target=self._accept, name="crashtest-proxy", daemon=True).start()

    def dsn(self, dbname: str) -> str:
        """The address of a database behind the proxy, as a URL."""
        account = _quoted(self.user) + (f":{_quoted(self.password)}" if self.password else "")
        return f"postgresql://{account}@127.0.0.1:{self.port}/{_quoted(dbname)}"

    def serve(self, injector: FaultInjector) -> None:
        """Begin a run: connections from now on are ruled by this injector."""
        self.injector = injector

    def hang_up(self) -> None:
        """Close all connections, as the system does for a process that died."""
        links, self._links = self._links, []
        for link in links:
            link.close()

    def close(self) -> None:
        """Close all connections and accept no more."""
        self._listener.close()
        self.hang_up()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                link = _Link(client, self._target, self.injector)
                self._links.append(link)
                threading.Thread(target=link.run, name="crashtest-link", daemon=True).start()


class _Link:
    """One connection: a thread for each direction."""

    def __init__(self, client: socket.socket, target: tuple[str, int], injector: FaultInjector) -> None:
        self._client, self._target, self._injector = client, target, injector
        self._upstream: socket.socket | None = None
        self._session = Session()
        self._held = False
        self._refusing = False
        # The process was killed, so neither side hears anything until the run ends.
        self._silent = False

    def run(self) -> None:
        with suppress(OSError):
            self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reading = self._client.makefile("rb")
            startup = wire.read_startup(reading)
            while startup is not None and wire.wants_encryption(startup):
                self._client.sendall(b"N")
                startup = wire.read_startup(reading)
            if startup is not None:
                self._begin(startup)
                self._forward(reading)
                if self._silent:
                    return
        self.close()

    def close(self) -> None:
        for end in (self._client, self._upstream):
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _begin(self, startup: bytes) -> None:
        self._upstream = _connect(self._target)
        self._session = Session(_application(startup))
        self._upstream.sendall(startup)
        threading.Thread(target=self._answer, name="crashtest-link", daemon=True).start()

    def _forward(self, reading: BinaryIO) -> None:
        """Client to server."""
        assert self._upstream is not None
        statements = wire.Statements()
        while (frame := wire.read_frame(reading)) is not None:
            text = statements.executed(frame)
            ruling = self._injector.before(self._session, text) if text is not None else Ruling.GO
            if ruling is Ruling.DIE:
                self._silent = True
                return
            if ruling is Ruling.REFUSE:
                self._refusing = True
                frame = wire.query(_NONSENSE) if frame.kind == b"Q" else wire.parse(_NONSENSE)
            self._held = self._held or ruling is Ruling.HOLD
            self._upstream.sendall(frame.raw)

    def _answer(self) -> None:
        """Server to client."""
        assert self._upstream is not None
        with suppress(OSError):
            reading = self._upstream.makefile("rb")
            while (frame := wire.read_frame(reading)) is not None:
                if frame.kind == b"Z":
                    self._session.in_transaction = frame.body != b"I"
                    if self._held:
                        self._injector.after()
                        return
                if self._held and frame.kind not in _COPY:
                    continue
                if frame.kind == b"E" and self._refusing:
                    self._refusing, frame = False, _REFUSAL
                self._client.sendall(frame.raw)
        if not self._injector.dead:
            self.close()


def _connect(target: tuple[str, int]) -> socket.socket:
    host, port = target
    if host.startswith("/"):
        link = socket.socket(socket.AF_UNIX)
        link.connect(f"{host}/.s.PGSQL.{port}")
        return link
    link = socket.create_connection(target)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _application(startup: bytes) -> str:
    words = startup[8:].split(b"\0")
    given = dict(zip(words[::2], words[1::2], strict=False))
    return given.get(b"application_name", b"").decode("utf-8", "replace")


def _quoted(text: object) -> str:
    return quote(str(text), safe="")
