"""What `mqpg up` keeps in one folder: the cluster, and the workers in the background."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from mqpg import migrate
from mqpg.embedded.datadir import DataDirectory
from mqpg.embedded.server import EmbeddedServer
from mqpg.errors import ConfigurationError

__all__ = ["DATABASE", "Home", "default_directory", "running_dsn"]

DATABASE = "mqpg"
_DRAIN_SECONDS = 20.0
_WORKER_SECONDS = 60.0
_IN_BACKGROUND = '"$@" < /dev/null >> "$0" 2>&1 & echo $!'
_APPENDER = "select from mqpg.worker where role = 'appender' and state = 'active' and seen_at > now() - interval '5 s'"

logger = logging.getLogger(__name__)


def default_directory() -> Path:
    """MQPG_HOME, else .mqpg in the current folder."""
    return Path(os.environ.get("MQPG_HOME") or ".mqpg").absolute()


def running_dsn() -> str | None:
    """DSN of the server that `mqpg up` runs in the default directory; None where it does not run."""
    directory = default_directory()
    with suppress(OSError):
        if DataDirectory(directory).postmaster() is not None:
            return EmbeddedServer(directory).dsn(DATABASE)
    return None


class Home:
    """The folder of `mqpg up`: a detached server, its migrated database, one worker process."""

    def __init__(self, directory: str | Path | None = None, *, port: int | None = None) -> None:
        self.directory = Path(directory).absolute() if directory is not None else default_directory()
        self.server = EmbeddedServer(self.directory, port=port, detach=True)
        self._pid_file = self.directory / "worker.pid"

    def up(self, *, workers: bool = True) -> str:
        """Start what does not run yet; returns the DSN. Raises ConfigurationError, SchemaTooNew."""
        self.server.start()
        dsn = self.server.create_database(DATABASE)
        migrate.upgrade(dsn)
        if workers and self.worker_pid() is None:
            self._start_workers(dsn)
        return dsn

    def down(self, *, remove: bool = False) -> bool:
        """Stop the workers, then the server; data are kept unless `remove`. False where nothing ran.

        Raises ConfigurationError.
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
        """Process id of the background workers, None where they do not run."""
        try:
            pid, born = self._pid_file.read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return None
        # The number may have gone to somebody else since: the time of birth tells.
        return int(pid) if _born(int(pid)) == born else None

    def _start_workers(self, dsn: str) -> None:
        log = self.directory / "worker.log"
        # Through a shell that ends at once: the workers are to be nobody's children, least of all ours.
        started = subprocess.run(
            ["/bin/sh", "-c", _IN_BACKGROUND, str(log), sys.executable, "-m", "mqpg", "worker"],
            # Nothing that happens to lie in the current folder is to be imported.
            env=os.environ | {"MQPG_DATABASE_URL": dsn, "PYTHONSAFEPATH": "1"},
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
        """Until the workers are at work; raises ConfigurationError with the log's last line if they end instead."""
        deadline = time.monotonic() + _WORKER_SECONDS
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not connection.execute(_APPENDER).rowcount:
                if self.worker_pid() is None or time.monotonic() > deadline:
                    words = log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
                    raise ConfigurationError(f"the workers do not start, see {log}: {' '.join(words)}")
                time.sleep(0.05)


def _born(pid: int) -> str | None:
    """Start time of a process in clock ticks; None once it is gone or a zombie."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else fields[18]


def _end(pid: int) -> None:
    born, deadline = _born(pid), time.monotonic() + _DRAIN_SECONDS
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while _born(pid) == born:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.05)
