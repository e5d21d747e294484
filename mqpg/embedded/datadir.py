"""The folders of an embedded server: data, password, socket; made so that the server's account can reach them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mqpg.embedded.account import Account
from mqpg.embedded.binaries import Binaries
from mqpg.errors import ConfigurationError

__all__ = ["DataDirectory", "Postmaster"]

_DETACHED = "mqpg.detached"
_RELOCATED = "mqpg-data-"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server, as its postmaster.pid tells."""

    pid: int
    port: int


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """`directory` is what the user named; the cluster is `directory/pgdata`, or where that link points."""

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
        """Of the superuser `postgres`. Raises FileNotFoundError before `prepare`, PermissionError to others."""
        return (self.directory / "password").read_text(encoding="ascii").strip()

    @property
    def detached(self) -> bool:
        """Whether `mqpg up` has made it a server of its own, which nobody's end may end."""
        return (self.pgdata / _DETACHED).exists()

    @contextlib.contextmanager
    def usable(self) -> Iterator[None]:
        """What the system refuses here (no such folder, read-only, somebody else's) becomes ConfigurationError."""
        try:
            yield
        except OSError as error:
            raise ConfigurationError(
                f"cannot use folder {self.directory}: {error.strerror or error}; name another one (--data or MQPG_HOME)"
            ) from error

    def detach(self, account: Account) -> None:
        """Make it one; `Watchdog` and EmbeddedServer.close leave it alone."""
        path = self.pgdata / _DETACHED
        path.touch()
        account.give(path)

    def attach(self) -> None:
        """Undo `detach`."""
        (self.pgdata / _DETACHED).unlink(missing_ok=True)

    def prepare(self, account: Account, binaries: Binaries) -> None:
        """Make the cluster unless it is there. Raises ConfigurationError where its version is another."""
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
        """Write the settings of the coming start; postgresql.conf includes them last."""
        path = self.pgdata / "mqpg.conf"
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items()]
        path.write_text("".join(lines), encoding="utf-8")
        account.give(path)

    def socket_folder(self, account: Account) -> Path:
        """A short path, since a socket's name may have 107 bytes; only the server's account may enter it."""
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
        """The server that runs on this cluster, if one does and we may look."""
        try:
            lines = (self.pgdata / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            found = Postmaster(int(lines[0]), int(lines[3]))
        except (OSError, ValueError, IndexError):
            return None
        return found if _is_postgres(found.pid) else None

    def remove(self) -> None:
        """Delete everything, wherever the cluster is."""
        elsewhere = self.pgdata.parent
        if (self.directory / "pgdata").is_symlink() and elsewhere.name.startswith(_RELOCATED):
            shutil.rmtree(elsewhere, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _relocate(self) -> None:
        # Root's private folders cannot be entered by the account that the server must run as.
        temporary = Path(tempfile.gettempdir()).resolve()
        bases = [Path("/var/lib"), Path("/var/tmp")]
        if self.directory.resolve().is_relative_to(temporary):
            bases.insert(0, temporary)
        base = next((path for path in bases if os.access(path, os.W_OK)), None)
        if base is None:
            raise ConfigurationError(f"the server's account cannot enter {self.directory}, nor is /var/lib writable")
        folder = Path(tempfile.mkdtemp(prefix=_RELOCATED, dir=base))
        folder.chmod(0o711)
        link = self.directory / "pgdata"
        link.unlink(missing_ok=True)
        link.symlink_to(folder / "pgdata")

    def _make_cluster(self, account: Account, binaries: Binaries) -> None:
        # Made under another name and renamed when complete: an interrupted initdb leaves nothing that looks whole.
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
    try:  # no /proc on this system: the number alone must do
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
