"""Stops an embedded server when the process that started it ends, even if that was killed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mqpg.embedded.account import Account

__all__ = ["Watchdog"]

# `cat` reads until the end of file, which comes when our process, the last holder of the pipe, is
# gone.
_SCRIPT = """
cat > /dev/null
if [ -e "$1/postmaster.pid" ] && [ ! -e "$1/mqpg.detached" ]; then
    exec "$0" stop -s -w -m fast -D "$1"
fi
"""


class Watchdog:
    """A shell that waits on a pipe, in a session of its own, so that Ctrl-C does not reach it.

    Args:
        account: The user that the server runs as.
        pg_ctl: The path of the program that stops the server.
        pgdata: The folder of the cluster.
    """

    def __init__(self, account: Account, pg_ctl: str, pgdata: Path) -> None:
        options = account.options() | {"stdin": subprocess.PIPE}
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, pg_ctl, str(pgdata)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **options,
        )

    def dismiss(self) -> None:
        """End the watch, because the server was stopped in another way."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
