"""Processes that a run starts, kills and starts again, by their own pids only."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psycopg
import stamina

from mqpg.errors import Error

__all__ = ["Fleet", "LabError", "Process", "environment", "persist"]

T = TypeVar("T")

_PAUSE = 1.0  # seconds until a process that ended by itself is started again


class LabError(Error):
    """A run cannot continue. The message says why in one line."""


def environment(**more: str) -> dict[str, str]:
    """This process's environment and more. Output is unbuffered, so that a kill loses no log line."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", **more}


def persist(
    work: Callable[[], T], patience: float = 90.0, on: tuple[type[Exception], ...] = (Error, psycopg.Error)
) -> T:
    """Try again while a server recovers, or others hold locks, for `patience` seconds."""
    stamina.instrumentation.set_on_retry_hooks([])  # nothing is written of each attempt
    again = stamina.retry(on=on, attempts=None, timeout=patience, wait_initial=0.05, wait_max=1.0, wait_jitter=0.05)
    return again(work)()


class Process:
    """A process in a session of its own, and all processes that it starts.

    Args:
        name: Its name, also that of its log. Without a number at its end it is the role.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self.name, self.role = name, name.rpartition("-")[0] or name
        self.log = folder / f"{name}.log"
        self._command, self._env = command, env
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            # Ctrl-C does not reach its session. Only this process holds the other end of the pipe,
            # so a process that stops at the end of its input does not outlive this one.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=self.log.parent,
                start_new_session=True,
            )

    def kill(self) -> int | None:
        """End the group by SIGKILL, and return its status. None: it does not run."""
        self.send(signal.SIGKILL)
        return self.reap()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the group."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def reap(self, timeout: float | None = None) -> int | None:
        """Wait until it has ended, and forget it. TimeoutExpired: it has not, within so many seconds."""
        if self._process is None:
            return None
        status = self._process.wait(timeout)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None
        return status

    def ended(self) -> int | None:
        """The status with which it ended by itself. None: it runs, or was killed."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        """Its process id. None: it does not run."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-4:])


class Fleet:
    """Processes that are kept alive: what was killed or ended is started again by `tend`.

    Args:
        most: How often processes may end by themselves. None: as often as they like.

    Attributes:
        crashes: A line for each process that ended by itself, which none should.
    """

    def __init__(self, folder: Path, env: Mapping[str, str], most: int | None = None) -> None:
        self.folder, self._env, self._most = folder, env, most
        self._members: dict[str, Process] = {}
        self._start_at: dict[str, float] = {}
        self._finishing: set[str] = set()
        self.kills: Counter[str] = Counter()
        self.crashes: list[str] = []

    def add(self, name: str, command: Sequence[str], *, finishes: bool = False) -> None:
        """Start a process. `finishes`: it may end with status 0, and is then not started again."""
        self.include(Process(name, command, self.folder, self._env))
        if finishes:
            self._finishing.add(name)
        self._members[name].start()

    def include(self, process: Process) -> None:
        """Keep a process alive that others start and kill."""
        self._members[process.name] = process

    def kill(self, name: str, pause: float = 0.0) -> str | None:
        """Kill a process, which `tend` starts again after a pause.

        Returns:
            Its name and pid. None: it does not run, or ended by itself a moment ago.
        """
        process = self._members[name]
        pid = process.pid
        if pid is None:
            return None
        status = process.kill()
        if status is not None and status != -signal.SIGKILL:
            self._note(process, status)
            return None
        self.kills[process.role] += 1
        self._start_at[name] = time.monotonic() + pause
        return f"{name} (pid {pid})"

    def kill_one(self, rng: random.Random) -> None:
        """Kill any of them."""
        self.kill(rng.choice(self.names))

    def living(self, role: str) -> list[str]:
        """The names of the processes of a role that run now."""
        return [name for name, one in self._members.items() if one.role == role and one.pid]

    def tend(self) -> None:
        """Start what is due, and note what ended by itself."""
        now = time.monotonic()
        for name, process in list(self._members.items()):
            status = process.ended()
            if status is not None:
                self._note(process, status)
                process.reap()
            elif self._start_at.get(name, now + 1) <= now:
                del self._start_at[name]
                process.start()

    def finished(self, role: str) -> bool:
        """Whether all processes of a role have finished."""
        return not any(one.role == role for one in self._members.values())

    def retire(self, names: Iterable[str]) -> None:
        """Kill processes, which are not started again."""
        for name in list(names):
            self._start_at.pop(name, None)
            self._members.pop(name).kill()

    def stop(self, patience: float = 15.0) -> list[str]:
        """Stop all of them: SIGTERM first, and SIGKILL after `patience` seconds.

        Returns:
            The names of those that needed SIGKILL.
        """
        for process in self._members.values():
            process.send(signal.SIGTERM)
        deadline, killed = time.monotonic() + patience, []
        for name, process in self._members.items():
            try:
                process.reap(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                killed.append(name)
        self.retire(self.names)
        return killed

    @property
    def names(self) -> list[str]:
        """The names of all processes."""
        return sorted(self._members)

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of what runs now, by name."""
        return {name: one.pid for name, one in self._members.items() if one.pid}

    def _note(self, process: Process, status: int) -> None:
        if status == 0 and process.name in self._finishing:
            del self._members[process.name]
            return
        self.crashes.append(f"{process.name} ended with status {status}: {process.tail}")
        if self._most is not None and len(self.crashes) > self._most:
            raise LabError(f"processes keep ending by themselves: {self.crashes[-1]}")
        self._start_at[process.name] = time.monotonic() + _PAUSE
