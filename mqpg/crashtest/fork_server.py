"""The processes from which the processes to be killed are forked.

They have imported the library, and none of the user's code. As a consequence each crash costs
milliseconds, and each process still imports the user's module by itself.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Self

__all__ = ["ForkServer"]

_VARIABLES = ("MQPG_", "PG", "DATABASE_URL")


class ForkServer:
    """Forks processes and reports how they ended. `jobs` says how many may run at the same time."""

    def __init__(self, jobs: int) -> None:
        pairs = [socket.socketpair() for _ in range(jobs)]
        self._channels = [here.makefile("rwb") for here, _ in pairs]
        there = [other.fileno() for _, other in pairs]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mqpg.crashtest.fork_server", *map(str, there)],
            pass_fds=there,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        )
        for pair in pairs:
            for end in pair:
                end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for channel in self._channels:
            with suppress(OSError):
                channel.close()

    def run(self, number: int, job: dict[str, Any], folder: Path, log: Path, **environment: str) -> int:
        """Run a job of `mqpg.crashtest.child` in a process of its own.

        `number`, from 0, is the caller's among those that run jobs at the same time. The file `log` gets
        everything that the process prints, and `environment` is set beside those variables of this process that
        name no database. Returns an exit status, or a signal below 0.
        """
        request = {"job": job, "folder": str(folder), "log": str(log), "environment": environment}
        channel = self._channels[number]
        # Without a line the fork server itself has ended, for example because memory was short.
        with suppress(OSError):
            channel.write(json.dumps(request).encode() + b"\n")
            channel.flush()
            return int(channel.readline() or b"70")
        return 70


def main() -> None:
    """Fork a server for each channel, whose descriptors are the arguments."""
    from mqpg.crashtest import child

    child.import_the_rest()
    gc.freeze()  # what is imported stays in memory that all of them share
    channels = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    for channel in channels:
        if os.fork() == 0:
            for other in channels:
                if other is not channel:
                    other.close()
            _serve(channel)
    for channel in channels:
        channel.close()
    for _ in channels:
        os.wait()


def _serve(channel: socket.socket) -> NoReturn:
    """Fork a process for each line, and answer how it ended."""
    from mqpg.crashtest import child

    with channel, channel.makefile("rwb") as lines:
        for line in lines:
            pid = os.fork()
            if pid == 0:
                request = json.loads(line)
                _become(request["folder"], request["log"], request["environment"])
                child.main(request["job"])
            _, status = os.waitpid(pid, 0)
            lines.write(b"%d\n" % os.waitstatus_to_exitcode(status))
            lines.flush()
    os._exit(0)


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
