"""The ten nodes: process groups that get SIGKILL or SIGSTOP as a whole, by their own pids only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mqpg.embedded import EmbeddedServer

__all__ = ["BrokerNode", "Node", "ProcessNode", "is_stopped"]


class Node(Protocol):
    """A node of the run."""

    name: str

    def start(self) -> None:
        """Start it. A broker is waited for until it answers."""

    def kill(self) -> None:
        """End the whole group by SIGKILL."""

    def pause(self) -> None:
        """Freeze the whole group by SIGSTOP."""

    def resume(self) -> None:
        """Let it continue after `pause`."""

    def ended(self) -> int | None:
        """Return the status with which it ended by itself. None: it runs, or was killed."""


class ProcessNode:
    """A process in a session of its own, and all processes that it starts.

    Args:
        name: Its name, also that of its log.
        argv: Its command line.
        folder: The folder of its log.
        env: Its environment.
    """

    def __init__(self, name: str, argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self._argv, self._folder, self._env = argv, folder, env
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with (self._folder / f"{self.name}.log").open("ab") as log:
            # Only this process holds the other end of the pipe, so no node outlives it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._argv],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(self._env),
                cwd=self._folder,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End the group by SIGKILL."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process = None

    def pause(self) -> None:
        """Freeze the group."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the group continue."""
        self._signal(signal.SIGCONT)

    def ended(self) -> int | None:
        """Return its status where it ended by itself."""
        return None if self._process is None else self._process.poll()

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        return " / ".join((self._folder / f"{self.name}.log").read_text(errors="replace").splitlines()[-4:])

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class BrokerNode:
    """A PostgreSQL server with all of its processes, and the workers of its broker.

    Args:
        name: Its name.
        server: The server, which runs already.
        worker: The workers.
    """

    def __init__(self, name: str, server: EmbeddedServer, worker: ProcessNode) -> None:
        self.name, self.server, self.worker = name, server, worker

    def start(self) -> None:
        """Start the server if necessary, wait for its recovery, and start the workers."""
        self.server.start()
        self.worker.start()

    def kill(self) -> None:
        """End the workers, the postmaster and every other process of the server by SIGKILL."""
        self.worker.kill()
        pids = self._freeze()
        for pid in reversed(pids):  # the postmaster, which can start no process meanwhile, is last
            _send(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        while any(_runs(pid) for pid in pids) and time.monotonic() < until:
            time.sleep(0.01)

    def pause(self) -> None:
        """Freeze the workers and the server."""
        self.worker.pause()
        self._freeze()

    def resume(self) -> None:
        """Let them continue."""
        for pid in reversed(self._pids()):
            _send(pid, signal.SIGCONT)
        self.worker.resume()

    def ended(self) -> int | None:
        """Return the status of the workers where they ended by themselves."""
        return self.worker.ended()

    def _freeze(self) -> list[int]:
        """Stop the postmaster first, so that the list of its processes stays complete."""
        postmaster = self.server.pid
        if postmaster is None:
            return []
        _send(postmaster, signal.SIGSTOP)
        pids = self._pids()
        for pid in pids[1:]:
            _send(pid, signal.SIGSTOP)
        return pids

    def _pids(self) -> list[int]:
        postmaster = self.server.pid
        return [] if postmaster is None else [postmaster, *_children(postmaster)]


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _children(parent: int) -> list[int]:
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _stat(pid)[1:2] == [str(parent)]]


def is_stopped(pid: int) -> bool:
    """Return whether SIGSTOP has reached a process, which on a busy machine takes a while."""
    return _stat(pid)[:1] == ["T"]


def _runs(pid: int) -> bool:
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none where there is no process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    return []
