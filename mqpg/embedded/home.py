"""The folder of `mqpg up`: a cluster, and the workers in the background."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psycopg

from mqpg.embedded.datadir import DATABASE, DataDirectory, default_directory
from mqpg.embedded.server import EmbeddedServer
from mqpg.schema import migrate
from mqpg.values.errors import ConfigurationError

__all__ = ["Home"]

_DRAIN_SECONDS = 20.0
_WORKER_SECONDS = 60.0
_IN_BACKGROUND = '"$@" < /dev/null >> "$0" 2>&1 & echo $!'
_LEDGERS = "MQPG_LEDGER_"
_APPENDER = "select from mqpg.worker where role = 'appender' and state = 'active' and seen_at > now() - interval '5 s'"

logger = logging.getLogger(__name__)


class Home:
    """The folder of `mqpg up`: a server, its migrated database, and one worker process.

    The server and the worker process continue to run when the process that started them ends.

    Args:
        directory: The folder; None means MQPG_HOME, or else `.mqpg` in the current folder.
        port: The port of the server. None: the one that it had the last time, or else a free one.
            0: any free one.
    """

    def __init__(self, directory: str | Path | None = None, *, port: int | None = None) -> None:
        self.directory = Path(directory).absolute() if directory is not None else default_directory()
        self.server = EmbeddedServer(self.directory, port=port, detach=True)
        self._any_port = port == 0
        self._pid_file = self.directory / "worker.pid"

    def up(self, *, workers: bool = True) -> str:
        """Start the server and the workers where they do not run yet, and migrate the database.

        Workers that run already are restarted where the environment names a ledger
        (MQPG_LEDGER_<NAME>) that they do not know or know with another URL. They keep the others.

        Args:
            workers: Whether to start the workers too.

        Returns:
            The DSN of the database.

        Raises:
            ConfigurationError: The server or the workers cannot be started, for example because
                another program has the server's port.
            SchemaTooNew: A newer release of mqpg has migrated the database.
        """
        data = DataDirectory(self.directory)
        if self.server.port is None and not self._any_port:
            # The DSN is in programs that run and in their configuration, so it must stay the same.
            self.server.port = data.kept_port
        self.server.start()
        if self.server.port is not None:
            data.keep_port(self.server.port)
        dsn = self.server.create_database(DATABASE)
        logger.info("the database %s has the schema of mqpg %s", DATABASE, migrate.upgrade(dsn).release)
        if workers:
            self._tend_workers(dsn)
        return dsn

    def down(self, *, remove: bool = False) -> bool:
        """Stop the workers, then the server.

        Args:
            remove: Whether to delete the data too.

        Returns:
            False where nothing was running.

        Raises:
            ConfigurationError: The folder cannot be used, or the server cannot be stopped.
        """
        with DataDirectory(self.directory).usable():
            return self.directory.is_dir() and self._down(remove=remove)

    def _down(self, *, remove: bool) -> bool:
        pid = self.worker_pid()
        if pid is not None:
            _end(pid)
        self._pid_file.unlink(missing_ok=True)
        running = self.server.is_running()
        if running:
            self.server.stop("fast")
            DataDirectory(self.directory).attach()
        if remove:
            self.server.destroy()
        return running or pid is not None

    def worker_pid(self) -> int | None:
        """Look for the background workers.

        Returns:
            Their process id, or None where they do not run.
        """
        try:
            pid, born = self._pid_file.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return None
        # Another process may have the number by now. The time of its start shows that.
        return int(pid) if _born(int(pid)) == born else None

    def _tend_workers(self, dsn: str) -> None:
        """Start the workers, or restart them where they lack a ledger of this environment."""
        pid = self.worker_pid()
        if pid is None:
            self._start_workers(dsn, os.environ)
            return
        given = _ledgers(os.environ)
        try:
            known = _ledgers(_environment(pid))
        except OSError as error:  # they belong to another user, or have just ended
            logger.warning("cannot see which ledgers the running workers know: %s", error)
            return
        new = sorted(name for name, url in given.items() if known.get(name) != url)
        if new:
            logger.warning("the workers restart with %s", ", ".join(new))
            _end(pid)
            self._start_workers(dsn, {**os.environ, **known, **given})

    def _start_workers(self, dsn: str, environment: Mapping[str, str]) -> None:
        log = self.directory / "worker.log"
        # Through a shell that ends at once, so that the workers are not children of this process.
        started = subprocess.run(
            ["/bin/sh", "-c", _IN_BACKGROUND, str(log), sys.executable, "-m", "mqpg", "worker"],
            # PYTHONSAFEPATH: modules in the current folder must not be imported by accident.
            env={**environment, "MQPG_DATABASE_URL": dsn, "PYTHONSAFEPATH": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            start_new_session=True,
        )
        pid = int(started.stdout)
        self._pid_file.write_text(f"{pid} {_born(pid)}\n", encoding="ascii")
        self._await_appender(dsn, log)
        logger.info("workers run as process %d, log in %s", pid, log)

    def _await_appender(self, dsn: str, log: Path) -> None:
        """Wait until the appender is active.

        Raises:
            ConfigurationError: The workers ended, or a minute has passed; the message has the log's
                last line.
        """
        deadline = time.monotonic() + _WORKER_SECONDS
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not connection.execute(_APPENDER).rowcount:
                if self.worker_pid() is None or time.monotonic() > deadline:
                    words = log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
                    raise ConfigurationError(f"the workers do not start, see {log}: {' '.join(words)}")
                time.sleep(0.05)


def _born(pid: int) -> str | None:
    """The start time of a process in clock ticks; None where it is gone or a zombie."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else fields[18]


def _environment(pid: int) -> dict[str, str]:
    """The variables that a process was started with."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)


def _ledgers(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: url for name, url in environment.items() if name.startswith(_LEDGERS)}


def _end(pid: int) -> None:
    born, deadline = _born(pid), time.monotonic() + _DRAIN_SECONDS
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while _born(pid) == born:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.05)
