"""Real processes that a long test starts, kills and starts again, by their own pids only."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Fleet"]


class Fleet:
    """The processes of a long test. They are killed and started again by their own pids only."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder, self._env = folder, env
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: Counter[str] = Counter()
        self.crashes: list[str] = []

    def add(self, name: str, command: list[str]) -> None:
        self._commands[name] = command
        self._start(name)

    def _start(self, name: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(self._commands[name], stdout=log, stderr=log, env=self._env)

    def kill(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()
            self.kills[name.rpartition("-")[0]] += 1

    def kill_one(self, rng: random.Random) -> str:
        """Kill one of them with kill -9. `tend` starts it again."""
        name = rng.choice(sorted(self._running))
        self.kill(name)
        return name

    def tend(self) -> None:
        """Start what was killed, and note processes that ended by themselves, which none should."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self.crashes.append(f"{name} ended with status {process.returncode}: {self._tail(name)}")
                del self._running[name]
        for name in self._commands.keys() - self._running.keys():
            self._start(name)

    def _tail(self, name: str) -> str:
        return " / ".join((self._folder / f"{name}.log").read_text(errors="replace").splitlines()[-4:])

    def retire(self, names: Iterable[str]) -> None:
        for name in list(names):
            self.kill(name)
            self._commands.pop(name, None)

    @property
    def names(self) -> list[str]:
        return sorted(self._commands)

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of what runs now, by name."""
        return {name: process.pid for name, process in self._running.items()}
