"""The folders of an embedded server, for its data, its password and its socket."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mqpg.embedded.account import Account
from mqpg.embedded.binaries import Binaries
from mqpg.values.errors import ConfigurationError

__all__ = ["DATABASE", "DataDirectory", "Postmaster", "default_directory"]

DATABASE = "mqpg"  # the one that `mqpg up` makes

logger = logging.getLogger(__name__)

_DETACHED = "mqpg.detached"
_RELOCATED = "mqpg-data-"


def default_directory() -> Path:
    """The folder that MQPG_HOME names, or else `.mqpg` in the current folder."""
    return Path(os.environ.get("MQPG_HOME") or ".mqpg").absolute()


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server, as described by its file postmaster.pid."""

    pid: int
    port: int


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The folder of one cluster.

    Args:
        directory: The folder that the user named. The cluster is in `directory/pgdata`, which may
            be a symbolic link.
    """

    directory: Path

    @property
    def pgdata(self) -> Path:
        """The cluster's folder."""
        return (self.directory / "pgdata").resolve()

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.pgdata / "server.log"

    @property
    def password(self) -> str:
        """The password of the superuser `postgres`.

        Raises:
            FileNotFoundError: `prepare` was not called yet.
            PermissionError: The folder belongs to another user.
        """
        return (self.directory / "password").read_text(encoding="ascii").strip()

    @property
    def kept_port(self) -> int | None:
        """The port that the server had the last time. None: it is not known."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.directory / "port").read_text(encoding="ascii"))
        return None

    def keep_port(self, port: int) -> None:
        """Note the port for the next start, so that the DSN stays the same."""
        if self.kept_port != port:
            (self.directory / "port").write_text(f"{port}\n", encoding="ascii")

    @property
    def detached(self) -> bool:
        """Whether the server outlives the process that started it, as after `mqpg up`."""
        return (self.pgdata / _DETACHED).exists()

    @contextlib.contextmanager
    def usable(self) -> Iterator[None]:
        """Turn errors of the operating system into ConfigurationError during the block.

        Raises:
            ConfigurationError: The folder is missing, read-only, or another user's.
        """
        try:
            yield
        except OSError as error:
            raise ConfigurationError(
                f"cannot use folder {self.directory}: {error.strerror or error}; name another one (--data or MQPG_HOME)"
            ) from error

    def detach(self, account: Account) -> None:
        """Let the server continue to run: `Watchdog` and `EmbeddedServer.close` do not stop it."""
        path = self.pgdata / _DETACHED
        path.touch()
        account.give(path)

    def attach(self) -> None:
        """Revert `detach`."""
        (self.pgdata / _DETACHED).unlink(missing_ok=True)

    def prepare(self, account: Account, binaries: Binaries) -> None:
        """Create the cluster unless it exists.

        Raises:
            ConfigurationError: It exists with another major version, or it cannot be created.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.pgdata.exists() and not account.can_execute(self.directory):
            self._relocate()
        major = binaries.major(account)
        version_file = self.pgdata / "PG_VERSION"
        if not version_file.exists():
            self._make_cluster(account, binaries)
        elif (found := version_file.read_text(encoding="ascii").strip()) != major:
            raise ConfigurationError(
                f"{self.directory} holds data of PostgreSQL {found}, but the server here is {major}: "
                "name another directory, or move the data with pg_upgrade or pg_dump"
            )

    def configure(self, account: Account, settings: dict[str, str]) -> None:
        """Write the settings for the next start.

        postgresql.conf includes them last, so they take precedence.
        """
        path = self.pgdata / "mqpg.conf"
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items()]
        path.write_text("".join(lines), encoding="utf-8")
        account.give(path)

    def socket_folder(self, account: Account) -> Path:
        """The folder of the socket, which only the server's account may enter.

        Its path is short, because the name of a socket may have at most 107 bytes.
        """
        digest = hashlib.sha256(os.fsencode(self.pgdata)).hexdigest()[:10]
        folder = Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir(), f"mqpg-{digest}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            account.give(folder)
        if folder.lstat().st_uid != account.uid or folder.is_symlink():
            folder = Path(tempfile.mkdtemp(prefix="mqpg-", dir=folder.parent))
            account.give(folder)
        return folder

    def postmaster(self) -> Postmaster | None:
        """The server that runs on this cluster.

        None where none does, or where its files cannot be read.
        """
        try:
            lines = (self.pgdata / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            found = Postmaster(int(lines[0]), int(lines[3]))
        except (OSError, ValueError, IndexError):
            return None
        return found if _is_postgres(found.pid) else None

    def remove(self) -> None:
        """Delete everything, including a cluster that was moved elsewhere."""
        elsewhere = self.pgdata.parent
        if (self.directory / "pgdata").is_symlink() and elsewhere.name.startswith(_RELOCATED):
            shutil.rmtree(elsewhere, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _relocate(self) -> None:
        # The server must run as another account, which cannot enter root's private folders.
        temporary = Path(tempfile.gettempdir()).resolve()
        bases = [Path("/var/lib"), Path("/var/tmp")]
        if self.directory.resolve().is_relative_to(temporary):
            bases.insert(0, temporary)
        base = next((path for path in bases if os.access(path, os.W_OK)), None)
        if base is None:
            raise ConfigurationError(
                f"the server's account cannot enter {self.directory}, and /var/lib is not writable"
            )
        folder = Path(tempfile.mkdtemp(prefix=_RELOCATED, dir=base))
        folder.chmod(0o711)
        link = self.directory / "pgdata"
        link.unlink(missing_ok=True)
        link.symlink_to(folder / "pgdata")

    def _make_cluster(self, account: Account, binaries: Binaries) -> None:
        # The cluster is renamed when it is complete, so an interrupted initdb leaves none that
        # looks complete.
        logger.info("making a server of PostgreSQL %s in %s, once", binaries.major(account), self.directory)
        password = secrets.token_urlsafe(24)
        scratch = self.pgdata.parent / ".pgdata.new"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        account.give(scratch)
        with tempfile.NamedTemporaryFile("w", encoding="ascii", dir="/tmp") as file:
            file.write(password + "\n")
            file.flush()
            account.give(Path(file.name))
            cluster = ["-D", str(scratch), "-U", "postgres", "-E", "UTF8", "--no-locale"]
            account.run([binaries.program("initdb"), *cluster, "--auth=scram-sha-256", f"--pwfile={file.name}"])
        with (scratch / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write("\ninclude_if_exists 'mqpg.conf'\n")
        self._write_password(password)
        scratch.rename(self.pgdata)

    def _write_password(self, password: str) -> None:
        path = self.directory / "password"
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(password + "\n")


def _is_postgres(pid: int) -> bool:
    try:
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[0]
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    try:  # this system has no /proc, so the number alone must be enough
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
