"""What kills interrupt, `python -m lab.chaos.caller WORK MARK`, at MQPG_DATABASE_URL.

- `keep`: calls `keep()` again and again.
- `upgrade`: upgrades the schema to a release that differs from the installed one in its MARK only.
- `adopt`: calls `adopt()` until it succeeds.
"""

from __future__ import annotations

import importlib.resources
import os
import sys
import time

import mqpg
from mqpg import migrate
from mqpg.schema.source import Source

__all__ = ["MarkedSource", "main"]

_PAUSE = 0.02  # seconds between two calls


class MarkedSource(Source):
    """The SQL of this release under another checksum, so that all of its code is replaced."""

    def __init__(self, mark: str) -> None:
        super().__init__(importlib.resources.files("mqpg.sql"))
        self._mark = mark

    @property
    def checksum(self) -> str:
        """The checksum, which is that of no other mark."""
        return f"{super().checksum}-{self._mark}"


def main(work: str, mark: str) -> None:
    """Do it."""
    dsn = os.environ["MQPG_DATABASE_URL"]
    if work == "upgrade":
        migrate.upgrade(dsn, source=MarkedSource(mark))
        return
    while work == "adopt":
        try:
            migrate.adopt(dsn)
            return
        except mqpg.Error:
            time.sleep(_PAUSE)
    with mqpg.connect(dsn, call_timeout=60) as mq:
        while True:
            mq.keep()
            time.sleep(_PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
