"""The user that the server runs as.

PostgreSQL refuses root, so root's servers run as a system user.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqpg.values.errors import ConfigurationError

__all__ = ["Account", "current_account"]

_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system. `switch` says whether programs must change to it."""

    name: str
    uid: int
    gid: int
    switch: bool

    def options(self, extra: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Arguments of `subprocess` for a program of the server: user, folder, no PG* variables.

        Args:
            extra: More environment variables; None means none.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment.update(extra or {})
        options: dict[str, Any] = {"cwd": "/", "env": environment, "stdin": subprocess.DEVNULL}
        if self.switch:
            environment.pop("HOME", None)
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def run(self, command: Sequence[str]) -> str:
        """Run a program of the server and return its stdout and stderr.

        Raises:
            ConfigurationError: It cannot be run, or it failed; the message has the end of its
                output.
        """
        try:
            done: subprocess.CompletedProcess[str] = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **self.options()
            )
        except OSError as error:
            raise ConfigurationError(f"cannot run {command[0]} as user {self.name}: {error.strerror}") from error
        if done.returncode != 0:
            raise ConfigurationError(f"{Path(command[0]).name} failed: {' '.join(done.stdout.split())[-800:]}")
        return done.stdout

    def can_execute(self, path: Path) -> bool:
        """Whether this user may execute the file, or enter the folder, at this path."""
        return self._test("-x", path)

    def _test(self, flag: str, path: Path) -> bool:
        if not self.switch:
            return os.access(path, os.X_OK)
        return subprocess.run(["/usr/bin/test", flag, str(path)], check=False, **self.options()).returncode == 0

    def give(self, path: Path) -> None:
        """Make this user the owner of a file or folder."""
        if self.switch:
            os.chown(path, self.uid, self.gid)


def current_account() -> Account:
    """The user that runs this process; for root, the system user `postgres` or `nobody`.

    Raises:
        ConfigurationError: The process is root's, and there is neither of these users.
    """
    uid = os.geteuid()
    if uid != 0:
        return Account(_name(uid), uid, os.getegid(), switch=False)
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid, switch=True)
    raise ConfigurationError("PostgreSQL does not run as root, and there is no user postgres or nobody: add one")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run as a number without a name
        return str(uid)
