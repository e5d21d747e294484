"""Clock steps of producers, consumers and workers, by libfaketime.

PostgreSQL itself keeps the true clock: a server that runs under libfaketime hangs in the time-outs
of its locks. The monotonic clock is not stepped, as in reality. It is the same for all processes of
a machine, so how far a node's wall clock is from it tells whether the node has felt a step.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from lab.processes import LabError
from mqpg.errors import ConfigurationError

from . import stepped
from .stepped.sitecustomize import NOTES

__all__ = ["Clocks", "find_library"]

_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
_NAME = "libfaketimeMT.so.1"
_NEAR = 5.0  # seconds; the smallest step is one of 30
_PATIENCE = 60.0  # seconds until a node feels a step
_WANTED = f"--faults clock needs {_NAME}, which is not installed (Debian: apt-get install faketime)"


def find_library() -> Path:
    """Find the library.

    Raises:
        ConfigurationError: It is not installed.
    """
    for folder in map(Path, _FOLDERS):
        for found in (folder / "faketime" / _NAME, *folder.glob(f"*/faketime/{_NAME}")):
            if found.is_file():
                return found
    raise ConfigurationError(_WANTED)


class Clocks:
    """A clock for each node, which a file in a folder steps, and what the nodes note of it.

    Raises:
        ConfigurationError: libfaketime is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._library = folder, find_library()

    def environment(self, node: str) -> dict[str, str]:
        """The variables that give a new process of the node its clock.

        The process notes its clock in a file, at its beginning and after each step. A step takes
        effect within two seconds.
        """
        self._set(node, "+0")
        path = os.pathsep.join(filter(None, [*stepped.__path__, os.environ.get("PYTHONPATH")]))
        return {
            "PYTHONPATH": path,
            NOTES: str(self._notes(node)),
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file(node)),
            # Seconds. Otherwise each look at the clock would read the file.
            "FAKETIME_CACHE_DURATION": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, node: str, seconds: str) -> None:
        """Step the clock of a node, so many seconds from the true one, and wait until it has felt that.

        Raises:
            LabError: The process did not feel it within a minute.
        """
        self._set(node, seconds)
        until = time.monotonic() + _PATIENCE
        while (ahead := self.ahead(node)) is None or abs(ahead - float(seconds)) > _NEAR:
            if time.monotonic() > until:
                seen = "it notes no clock" if ahead is None else f"its clock is {round(ahead):+d} seconds ahead"
                raise LabError(f"{node} did not feel a clock step to {seconds} in {_PATIENCE:g} seconds: {seen}")
            time.sleep(0.05)

    def ahead(self, node: str) -> float | None:
        """How many seconds a node's clock is ahead of the true one, as it noted. None: it has not."""
        try:
            complete = self._notes(node).read_text(encoding="ascii").rpartition("\n")[0].splitlines()
        except FileNotFoundError:
            return None
        return float(complete[-1]) - (time.time() - time.monotonic()) if complete else None

    def _set(self, node: str, seconds: str) -> None:
        new = self._file(node).with_suffix(".new")
        new.write_text(f"{seconds}\n", encoding="ascii")
        os.replace(new, self._file(node))  # a reader never sees half of it

    def _file(self, node: str) -> Path:
        return self._folder / f"clock-{node}"

    def _notes(self, node: str) -> Path:
        return self._folder / f"clock-{node}.noted"
