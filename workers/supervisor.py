"""Runs roles as child processes: restarts what dies, passes SIGTERM on, ends with them."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from .session import Backoff

__all__ = ["Supervisor"]

logger = logging.getLogger(__name__)

_LOOK = 0.2  # seconds between two looks at the children
_SETTLED = 10.0  # a child that lived so long starts its back-off anew


class _Child:
    """One role: its process now, and when to start the next one."""

    def __init__(self, role: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.role, self._command, self._environment = role, list(command), dict(environment)
        self._backoff = Backoff(0.1, 10.0)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._start_at = 0.0

    def start(self) -> None:
        # The child drains when its standard input ends. Only this process holds the other end: no child outlives it.
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=self._environment)
        self._started = time.monotonic()
        logger.info("child started", extra={"child": self.role, "pid": self._process.pid})

    def tend(self) -> None:
        """Notice a death and plan the restart; restart when the time has come."""
        now = time.monotonic()
        if self._process is not None and (status := self._process.poll()) is not None:
            if now - self._started > _SETTLED:
                self._backoff.reset()
            self._start_at = now + self._backoff.next()
            self._forget()
            restart_in = round(self._start_at - now, 2)
            logger.warning("child ended", extra={"child": self.role, "status": status, "restart_in": restart_in})
        if self._process is None and now >= self._start_at:
            self.start()

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self, timeout: float) -> bool:
        """Whether it ended in time as asked; kills it otherwise."""
        if self._process is None:
            return True
        try:
            status = self._process.wait(max(0.0, timeout))
        except subprocess.TimeoutExpired:
            logger.error("child does not stop: killed", extra={"child": self.role, "pid": self._process.pid})
            self._process.kill()
            status = self._process.wait()
        self._forget()
        # Ended by the signal itself: asked before it listened, so it had not begun anything.
        return status in (0, -signal.SIGTERM)

    def _forget(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None


class Supervisor:
    """Runs `mqpg worker <role> <arguments>` as a child process for each role until `stop` is set."""

    def __init__(
        self,
        roles: Sequence[str],
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stop: threading.Event,
        *,
        grace: float = 30.0,
    ) -> None:
        command = [sys.executable, "-m", "mqpg", "worker"]
        self._children = [_Child(role, [*command, role, "--stop-on-eof", *arguments], environment) for role in roles]
        self._stop, self._grace = stop, grace

    def run(self) -> bool:
        """Tend the children until asked to stop, then let them drain; True if all ended by themselves in time."""
        try:
            while True:
                for child in self._children:
                    child.tend()
                if self._stop.wait(_LOOK):
                    break
        finally:
            clean = self._drain()
        return clean

    def _drain(self) -> bool:
        for child in self._children:
            child.ask_to_stop()
        until = time.monotonic() + self._grace
        ended = [child.wait(until - time.monotonic()) for child in self._children]
        return all(ended)
