"""Runs roles as child processes, restarts those that die, and forwards SIGTERM to them.

Children are forked from the supervisor, which has loaded what they need. They share that memory, and
four processes take little more than one. A process that forks must have no threads, so the supervisor
waits for signals instead of handling them.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from mqpg.cli import main
from mqpg.cli.stop_signals import STOPPING, SignalWaiter, stop_on_eof, stop_on_signals
from mqpg.connection.backoff import Backoff

__all__ = ["Supervisor", "Task"]

logger = logging.getLogger(__name__)

# Works in a process of its own until the event is set.
Task = Callable[[threading.Event], None]

_POLL = 0.2  # seconds between two polls of the children
_GRACE = 30.0  # seconds that the children may take to drain; then they are killed
_STABLE = 10.0  # a child that lived for this many seconds begins with the first pause again


class _Child:
    """One task: its process, and when to start the next one."""

    def __init__(self, name: str, run: Callable[[], None], hopeless: frozenset[int]) -> None:
        self.name, self._run, self._hopeless = name, run, hopeless
        self._backoff = Backoff(0.1, 10.0)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._started = self._start_at = 0.0

    def start(self) -> None:
        self._process = multiprocessing.get_context("fork").Process(target=self._run, name=self.name)
        self._process.start()
        self._started = time.monotonic()
        logger.info("child started", extra={"child": self.name, "pid": self._process.pid})

    def tend(self) -> int | None:
        """Notice an end and plan the restart, or restart when its time has come.

        Returns the exit status of a child that a restart cannot help.
        """
        now = time.monotonic()
        if self._process is not None and (status := self._process.exitcode) is not None:
            self._process = None
            if status in self._hopeless:
                logger.error("child cannot work", extra={"child": self.name, "status": status})
                return status
            if now - self._started > _STABLE:
                self._backoff.reset()
            self._start_at = now + self._backoff.next()
            restart_in = round(self._start_at - now, 2)
            logger.warning("child ended", extra={"child": self.name, "status": status, "restart_in": restart_in})
        if self._process is None and now >= self._start_at:
            self.start()
        return None

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self, timeout: float) -> bool:
        """Wait for the end. False: the child did not drain in time."""
        if self._process is None:
            return True
        self._process.join(max(0.0, timeout))
        if self._process.exitcode is None:
            logger.error(
                "child did not stop in time and was killed", extra={"child": self.name, "pid": self._process.pid}
            )
            self._process.kill()
            self._process.join()
        return self._process.exitcode == 0 or self._process.exitcode in self._hopeless


class Supervisor:
    """Runs each task in a child process. With the exit statuses in `hopeless` a restart cannot help a child."""

    def __init__(self, tasks: Mapping[str, Task], stop: SignalWaiter, hopeless: Mapping[str, frozenset[int]]) -> None:
        # A child drains at the end of this pipe. No child outlives this process, because it alone
        # holds the other end.
        self._read_end, self._write_end = os.pipe()
        self._stop = stop
        self._children = [
            _Child(name, lambda name=name, task=task: self._become(name, task), hopeless[name])  # type: ignore[misc]
            for name, task in tasks.items()
        ]

    def run(self) -> int:
        """Watch the children until `stop` is set, then let them drain.

        A child that a restart cannot help ends all of them. Returns its exit status, else 0, or 1 if a
        child did not end by itself in time.
        """
        gc.collect()
        gc.freeze()  # a collection in a child would otherwise write to all that it shares
        failed: int | None = None
        try:
            while failed is None and not self._stop.wait(_POLL):
                for child in self._children:
                    failed = failed or child.tend()
        finally:
            clean = self._drain()
        return failed or (0 if clean else 1)

    def _drain(self) -> bool:
        for child in self._children:
            child.ask_to_stop()
        deadline = time.monotonic() + _GRACE
        ended = [child.wait(deadline - time.monotonic()) for child in self._children]
        return all(ended)

    def _become(self, name: str, task: Task) -> None:
        """Run a task in this process, which is a child."""
        os.close(self._write_end)
        with suppress(OSError):  # the name that `ps` and `top` show
            Path("/proc/self/comm").write_text(f"mqpg {name}")
        stop = threading.Event()
        stop_on_eof(stop, self._read_end)
        stop_on_signals(stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        main(lambda: task(stop))
