"""The process from which the processes to be killed are forked.

It has imported the library, and none of the user's code. As a consequence each crash costs
milliseconds, and each process still imports the user's module by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["ForkServer"]

_VARIABLES = ("MQPG_", "PG", "DATABASE_URL")


class ForkServer:
    """Forks processes and reports how they ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mqpg.crashtest.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        )

    def run(self, job: dict[str, Any], folder: Path, log: Path, **environment: str) -> int:
        """Run a job of `mqpg.crashtest.child` in a process of its own.

        The file `log` gets everything that it prints, and `environment` is set beside those variables of this
        process that name no database. Returns an exit status, or a signal below 0.
        """
        request = {"job": job, "folder": str(folder), "log": str(log), "environment": environment}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        # Without a line the fork server itself has ended, for example because memory was short.
        return int(self._process.stdout.readline() or b"70")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Fork a process for each line of standard input, and print how it ended."""
    from mqpg.crashtest import child

    # The channel is this process's own. What a child prints goes into its log.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for line in requests:
        pid = os.fork()
        if pid == 0:
            request = json.loads(line)
            _become(request["folder"], request["log"], request["environment"])
            child.main(request["job"])
        _, status = os.waitpid(pid, 0)
        answers.write(b"%d\n" % os.waitstatus_to_exitcode(status))
        answers.flush()


def _become(folder: str, log: str, environment: dict[str, str]) -> None:
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(here, there)
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith(_VARIABLES)]:
        del os.environ[name]
    os.environ.update(environment)


if __name__ == "__main__":
    main()
