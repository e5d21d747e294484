"""The line between the process that is tried and the command: questions in JSON, each answered."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["Desk", "Line"]

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Line:
    """The end of the process that is tried. Threads may share it."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reading = self._socket.makefile("rb")
        self._lock = threading.RLock()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a question and wait for its answer. The process ends if the command is gone."""
        with self._lock:
            with suppress(OSError):
                self._socket.sendall(json.dumps(question, default=str).encode() + b"\n")
                if line := self._reading.readline():
                    answer: dict[str, Any] = json.loads(line)
                    return answer
            os._exit(70)  # the command is gone


class Desk:
    """The end of the command: answers the processes of one run after another."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._lock = threading.Lock()
        self._answer: Answer = _nothing
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, name="crashtest-desk", daemon=True).start()

    @contextmanager
    def answered_by(self, answer: Answer) -> Iterator[None]:
        """Answer with this function. When the block has ended, it is not called any more."""
        self._answer = answer
        try:
            yield
        finally:
            with self._lock:
                self._answer = _nothing

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), name="crashtest-desk", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, ValueError), client, client.makefile("rb") as reading:
            while line := reading.readline():
                with self._lock:
                    answer = self._answer(json.loads(line))
                client.sendall(json.dumps(answer).encode() + b"\n")


def _nothing(question: dict[str, Any]) -> dict[str, Any]:
    return {}
