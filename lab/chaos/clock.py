"""Clock steps of producers, consumers and workers, by libfaketime.

PostgreSQL itself keeps the true clock: a server that runs under libfaketime hangs in the time-outs
of its locks. The monotonic clock is not stepped, as in reality.
"""

from __future__ import annotations

import os
from pathlib import Path

from mqpg.errors import ConfigurationError

__all__ = ["Clocks", "find_library"]

_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
_NAME = "libfaketimeMT.so.1"
_INSIDE = Path("/usr/lib/x86_64-linux-gnu/faketime", _NAME)


def find_library() -> Path:
    """Find the library."""
    for folder in map(Path, _FOLDERS):
        for found in (folder / "faketime" / _NAME, *folder.glob(f"*/faketime/{_NAME}")):
            if found.is_file():
                return found
    raise ConfigurationError(f"--faults clock needs {_NAME}, which is not installed (Debian: apt-get install faketime)")


class Clocks:
    """A clock for each node, which a file in a folder steps.

    `contained`: the nodes are containers, which have the library of their image.
    """

    def __init__(self, folder: Path, *, contained: bool = False) -> None:
        self._folder, self._library = folder, _INSIDE if contained else find_library()

    def environment(self, node: str) -> dict[str, str]:
        """The variables that give a new process of the node its clock."""
        self.step(node, "+0")
        stepped = str(Path(__file__).parent / "stepped")  # its `sitecustomize` is imported first
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, [stepped, os.environ.get("PYTHONPATH")])),
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file(node)),
            # Seconds. Otherwise each look at the clock would read the file.
            "FAKETIME_CACHE_DURATION": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, node: str, seconds: str) -> None:
        """Step the clock of a node, so many seconds from the true one. It feels that within two seconds."""
        new = self._file(node).with_suffix(".new")
        new.write_text(f"{seconds}\n", encoding="ascii")
        os.replace(new, self._file(node))  # a reader never sees half of it

    def _file(self, node: str) -> Path:
        return self._folder / f"clock-{node}"
