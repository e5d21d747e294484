"""Runs roles as child processes, restarts those that die, and forwards SIGTERM to them."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from mqpg.connection.backoff import Backoff
from mqpg.schema.compatibility import EXIT_TOO_OLD

__all__ = ["Supervisor"]

logger = logging.getLogger(__name__)

_POLL = 0.2  # seconds between two polls of the children
_GRACE = 30.0  # seconds that the children may take to drain; then they are killed
_STABLE = 10.0  # a child that lived for this many seconds begins with the first pause again


class _Child:
    """One role: its process, and when to start the next one."""

    def __init__(self, role: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.role, self._command, self._environment = role, list(command), dict(environment)
        self._backoff = Backoff(0.1, 10.0)
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._start_at = 0.0

    def start(self) -> None:
        # The child drains when its standard input ends. Only this process holds the other end, so
        # no child outlives it.
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=self._environment)
        self._started = time.monotonic()
        logger.info("child started", extra={"child": self.role, "pid": self._process.pid})

    def tend(self) -> bool:
        """Notice an end and plan the restart, or restart when its time has come.

        False: the child is too old for the schema, so a restart cannot help.
        """
        now = time.monotonic()
        if self._process is not None and (status := self._process.poll()) is not None:
            if status == EXIT_TOO_OLD:
                self._forget()
                logger.error("child is too old for the schema: upgrade mqpg", extra={"child": self.role})
                return False
            if now - self._started > _STABLE:
                self._backoff.reset()
            self._start_at = now + self._backoff.next()
            self._forget()
            restart_in = round(self._start_at - now, 2)
            logger.warning("child ended", extra={"child": self.role, "status": status, "restart_in": restart_in})
        if self._process is None and now >= self._start_at:
            self.start()
        return True

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self, timeout: float) -> bool:
        """Wait for the end. False: the child did not drain in time."""
        if self._process is None:
            return True
        try:
            status = self._process.wait(max(0.0, timeout))
        except subprocess.TimeoutExpired:
            logger.error(
                "child did not stop in time and was killed", extra={"child": self.role, "pid": self._process.pid}
            )
            self._process.kill()
            status = self._process.wait()
        self._forget()
        # A child that ended by the signal itself had no signal handler yet, so it had not begun any
        # work.
        return status in (0, EXIT_TOO_OLD, -signal.SIGTERM)

    def _forget(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None


class Supervisor:
    """Runs `mqpg worker <role> <arguments>` as a child process for each role.

    Attributes:
        too_old: Whether a child ended because the schema is too new for this release.
    """

    def __init__(
        self,
        roles: Sequence[str],
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stop: threading.Event,
    ) -> None:
        command = [sys.executable, "-m", "mqpg", "worker"]
        self._children = [_Child(role, [*command, role, "--stop-on-eof", *arguments], environment) for role in roles]
        self._stop = stop
        self.too_old = False

    def run(self) -> bool:
        """Watch the children until `stop` is set, then let them drain.

        A child that is too old for the schema ends all of them, because a restart cannot help. Returns
        whether all of them ended by themselves in time.
        """
        try:
            while not self.too_old:
                for child in self._children:
                    self.too_old = not child.tend() or self.too_old
                if self._stop.wait(_POLL):
                    break
        finally:
            clean = self._drain()
        return clean

    def _drain(self) -> bool:
        for child in self._children:
            child.ask_to_stop()
        deadline = time.monotonic() + _GRACE
        ended = [child.wait(deadline - time.monotonic()) for child in self._children]
        return all(ended)
