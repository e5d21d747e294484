"""Real worker processes for tests, and their rows in mqpg.worker."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from tests.support.forking import Forked
from tests.support.waiting import PATIENCE

__all__ = ["Process", "Processes", "workers"]


class Process:
    """`mqpg <arguments>` in a process of its own, with its log lines in a file."""

    def __init__(self, arguments: list[str], log: Path, environment: Mapping[str, str]) -> None:
        """Start the process.

        The folder of `log` is its working directory, so modules there can be imported.
        """
        self.arguments, self._log = arguments, log
        reader, self.stdin = os.pipe()
        try:
            with log.open("wb") as stderr:
                environment = os.environ | environment
                self.process = Forked(arguments, env=environment, cwd=log.parent, stdin=reader, stderr=stderr)
        finally:
            os.close(reader)

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and return the exit status."""
        self.process.send_signal(signum)
        return self.wait()

    def wait(self) -> int:
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.arguments} did not end\n{self.log()}") from None

    def close(self) -> None:
        self.kill()
        os.close(self.stdin)


class Processes:
    """Starts processes, and ends those that still run at the end of the test."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self._folder, self._dsn = folder, dsn
        self._all: list[Process] = []

    def start(self, *arguments: str, dsn: str | None = None, **environment: str) -> Process:
        """Start a process, as in `start("worker", "appender")`.

        Keywords are variables of its environment.
        """
        log = self._folder / f"process{len(self._all)}.log"
        variables = {"MQPG_DATABASE_URL": dsn or self._dsn} | environment
        process = Process(list(arguments), log, variables)
        self._all.append(process)
        return process

    def worker(self, role: str, *arguments: str, **environment: str) -> Process:
        """Start a worker with quick heartbeats."""
        return self.start("worker", role, "--heartbeat", "0.2", *arguments, **environment)

    def logs(self) -> str:
        return "\n".join(f"--- {' '.join(p.arguments)} ({p.pid})\n{p.log()}" for p in self._all)

    def close(self) -> None:
        for process in self._all:
            process.close()


def workers(conn: psycopg.Connection[Any], role: str, state: str) -> dict[int, dict[str, Any]]:
    """Return pid -> detail of the workers in that state, by their newest rows."""
    query = "select pid, detail from mqpg.worker where role = %s and state = %s and pid > 0"
    return dict(conn.execute(query, [role, state]).fetchall())
