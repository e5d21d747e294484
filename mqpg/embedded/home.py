"""The folder of `mqpg up`: a cluster, and the workers in the background."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psycopg

from mqpg.embedded.server import EmbeddedServer, usable
from mqpg.schema import migrate
from mqpg.values.errors import ConfigurationError

__all__ = ["DATABASE", "Home"]

DATABASE = "mqpg"
_DRAIN_SECONDS = 20.0
_WORKER_SECONDS = 60.0
# Through a shell that ends at once, so that the workers are not children of this process.
_IN_BACKGROUND = '"$@" < /dev/null >> "$0" 2>&1 & echo $!'
# A compensator that stands by serves the ledgers that only it knows.
_AT_WORK = """
select role from mqpg.worker where seen_at > now() - interval '5 s'
and (role, state) in (('appender', 'active'), ('compensator', 'active'), ('compensator', 'standby')) group by role
"""

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
        self.directory = Path(directory or os.environ.get("MQPG_HOME") or ".mqpg").absolute()
        # Small segments, of which a new folder has fewer MB
        self.server = EmbeddedServer(self.directory, port=port, detach=True, segment_size=2)
        self._any_port = port == 0
        self._pid_file = self.directory / "worker.pid"
        self._log = self.directory / "worker.log"

    def up(self, *, workers: bool = True) -> str:
        """Start the server and the workers if they do not run yet, and migrate the database.

        Workers that run already are restarted if the environment names a ledger
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
        if self.server.port is None and not self._any_port:
            # The DSN is in programs that run and in their configuration, so it must stay the same.
            self.server.port = self.server.last_port
        is_new = not self.server.pgdata.exists()
        self.server.start()
        dsn = self.server.create_database(DATABASE)
        with _removed_wal(dsn) if is_new else nullcontext():
            release = migrate.upgrade(dsn).release
        logger.info("the database %s has the schema of mqpg %s", DATABASE, release)
        if workers:
            with (self.directory / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._tend_workers(dsn)
        return dsn

    def down(self, *, remove: bool = False) -> bool:
        """Stop the workers, then the server.

        Args:
            remove: Whether to delete the data too.

        Returns:
            False if nothing was running.

        Raises:
            ConfigurationError: The folder cannot be used, or the server cannot be stopped.
        """
        with usable(self.directory):
            workers, server = self.worker_pid(), self.server.pid
            if workers is not None:
                self._end(workers)
            self.server.stop()
            if remove:
                self.server.destroy()
            return (workers or server) is not None

    def worker_pid(self) -> int | None:
        """Look for the background workers, which hold a lock on the file with their process id.

        Returns:
            Their process id, or None if they do not run.
        """
        with suppress(OSError, ValueError), self._pid_file.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
        return None

    def _tend_workers(self, dsn: str) -> None:
        """Start the workers, or restart them if they lack a ledger of this environment."""
        pid = self.worker_pid()
        if pid is None:
            self._start_workers(dsn, os.environ)
            return
        given = _ledgers(os.environ)
        try:
            pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError as error:  # they belong to another user, or have just ended
            logger.warning("cannot see which ledgers the running workers know: %s", error)
            return
        known = _ledgers(dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair))
        new = sorted(name for name, url in given.items() if known.get(name) != url)
        if new:
            logger.warning("the workers restart with %s", ", ".join(new))
            self._end(pid)
            self._start_workers(dsn, {**os.environ, **known, **given})

    def _start_workers(self, dsn: str, environment: Mapping[str, str]) -> None:
        with self._pid_file.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            started = subprocess.run(
                ["/bin/sh", "-c", _IN_BACKGROUND, str(self._log), sys.executable, "-m", "mqpg", "worker"],
                # PYTHONSAFEPATH: modules in the current folder must not be imported by accident.
                env={**environment, "MQPG_DATABASE_URL": dsn, "PYTHONSAFEPATH": "1"},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                start_new_session=True,
                pass_fds=[file.fileno()],  # and with it the lock
            )
            file.write(started.stdout)
        self._await_workers(dsn)
        logger.info("workers run as process %d, log in %s", int(started.stdout), self._log)

    def _await_workers(self, dsn: str) -> None:
        """Wait until appender and compensator are at work. ConfigurationError: they end; it has the log's last line."""
        deadline = time.monotonic() + _WORKER_SECONDS
        with psycopg.connect(dsn, autocommit=True) as connection:
            while connection.execute(_AT_WORK).rowcount < 2:
                if self.worker_pid() is None or time.monotonic() > deadline:
                    words = self._log.read_text(errors="replace").splitlines()[-1:]
                    raise ConfigurationError(f"the workers do not start, see {self._log}: {' '.join(words)}")
                time.sleep(0.05)

    def _end(self, pid: int) -> None:
        """Let the workers drain, and kill them if they take too long."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            while self.worker_pid() == pid:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)


@contextmanager
def _removed_wal(dsn: str) -> Iterator[None]:
    """Remove the segments of WAL that are filled during the block. A server would keep them for reuse."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter system set wal_recycle = off")
        connection.execute("select pg_reload_conf()")
        try:
            yield
            connection.execute("vacuum full pg_proc")  # each function was made twice
            connection.execute("select pg_switch_wal()")
            connection.execute("checkpoint")
        finally:
            connection.execute("alter system reset wal_recycle")
            connection.execute("select pg_reload_conf()")


def _ledgers(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: url for name, url in environment.items() if name.startswith("MQPG_LEDGER_")}
