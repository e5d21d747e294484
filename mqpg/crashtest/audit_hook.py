"""Effects outside any database, as Python's audit events show them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["AuditHook"]

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_CALLS = {
    "http.client.send": "HTTP request",
    "smtplib.send": "mail",
    "subprocess.Popen": "process",
    "os.system": "process",
    "os.remove": "removed file",
    "os.rename": "renamed file",
}
_OVER_CONNECTIONS = ("http.client.send", "smtplib.send")


class AuditHook:
    """Reports files that are written, connections and processes, while the handler is at work.

    A connection counts until requests or mails over it do. It may be kept for the next ones, and a process that
    resumes needs one more, which is no effect.

    Args:
        report: Called with what kind of effect it is, with its name, and with 1, or with -1 if it counts no longer.
        busy: Whether the effect of this thread counts now.
        ports: TCP ports of this machine that do not count, because they lead to scratch databases.
    """

    def __init__(self, report: Callable[[str, str, int], None], busy: Callable[[], bool], ports: set[int]) -> None:
        self._report, self._busy, self._ports = report, busy, ports
        self._inside = threading.local()
        self._opened: dict[int, list[tuple[str, str]]] = {}  # by the number of the socket

    def start(self) -> None:
        """Begin. It lasts as long as the process."""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if getattr(self._inside, "yes", False) or not (found := self._seen(event, arguments)):
            return
        self._inside.yes = True
        try:
            if self._busy():
                self._count(event, arguments, found)
        finally:
            self._inside.yes = False

    def _count(self, event: str, arguments: tuple[Any, ...], found: tuple[str, str]) -> None:
        """Report an effect, and that the connection that it goes over counts no longer."""
        if event == "socket.connect":
            # A name may have several addresses. Those before the last one failed, and left its number free.
            number, port = arguments[0].fileno(), found[1].rpartition(":")[2]
            before = [one for one in self._opened.get(number, ()) if one[1].rpartition(":")[2] == port]
            self._opened[number] = [*before, found]
        elif event in _OVER_CONNECTIONS and (sock := arguments[0].sock) is not None:
            for connection in self._opened.pop(sock.fileno(), ()):
                self._report(*connection, -1)
        self._report(*found, 1)

    def _seen(self, event: str, arguments: tuple[Any, ...]) -> tuple[str, str] | None:
        match event:
            case "open":
                path, mode, flags = arguments
                if isinstance(path, int) or not (set(mode or "") & set("wax+") or (flags or 0) & _WRITES):
                    return None
                return None if os.fspath(path) == os.devnull else ("file", _name(path))
            case "socket.connect":
                return self._connected(arguments[1])
            case "sqlite3.connect":
                return "SQLite database", _name(arguments[0])
            case "http.client.send":
                connection = arguments[0]
                return _CALLS[event], f"{connection.host}:{connection.port}"
            case "os.remove" | "os.rename" | "subprocess.Popen" | "os.system":
                return _CALLS[event], _name(arguments[0])
            case "smtplib.send":
                # A session begins with commands of its own. A mail has one MAIL.
                return (_CALLS[event], "smtp") if arguments[1][:5].lower() == b"mail " else None
            case _:
                return None

    def _connected(self, address: Any) -> tuple[str, str] | None:
        if not isinstance(address, tuple) or len(address) < 2 or address[1] in self._ports:
            return None
        return "connection", f"{address[0]}:{address[1]}"


def _name(path: Any) -> str:
    """A path below the working directory without it."""
    text = os.fsdecode(path) if isinstance(path, (bytes, os.PathLike)) else str(path)
    whole, here = Path(text).absolute(), Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else text
