"""Processes that are forked from one that has imported the library, so that a start costs milliseconds, not a second.

`python -m tests.support.forking FD` reads requests from a socket, forks, and reports how each child ended. A child is a
process of its own: with its own connections, environment, folder, arguments and standard files.
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import IO, Any

import mqpg
from mqpg.cli.commands import COMMANDS
from mqpg.cli.plugins import GROUP

__all__ = ["Forked", "as_script", "run_forked", "run_mqpg"]

_ROOT = Path(__file__).resolve().parents[2]
_USED_BY_THEM = [
    "alembic.command", "mqpg.audit.sql.engine", "mqpg.workers.appender", "mqpg.workers.compensator",
    "mqpg.workers.keeper", "sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite.pysqlite",
    "mqpg._async.consumer.own_database", "mqpg._sync.consumer.own_database", "mqpg.sql", "mqpg.tracing.recorded",
    "importlib.resources.readers", "rich.console", "rich.table",
]  # fmt: skip
_LARGEST = 1 << 18  # bytes of a request: an environment and arguments
_SIGCHLD = {signal.SIGCHLD}


class Forked:
    """A process that calls `function` of a module: `main()` of the command line, unless it is named.

    Args:
        arguments: The command's words, or the arguments of the function.
        function: What it calls, "package.module:function", with `arguments`. None: the command `mqpg`.
        env: The environment of the process. None: that of this one.
        cwd: Its folder. None: that of this process.
        stdin: A file or a descriptor. None: nothing to read.
        stdout: The same, for what it writes. None: it is thrown away.
        stderr: The same.
    """

    def __init__(
        self, arguments: Sequence[Any], *, function: str | None = None, env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None, stdin: IO[Any] | int | None = None,
        stdout: IO[Any] | int | None = None, stderr: IO[Any] | int | None = None,
    ) -> None:  # fmt: skip
        self.args, self.returncode = list(arguments), None
        folder = str(cwd or Path.cwd())
        request = json.dumps([function, self.args, dict(os.environ if env is None else env), folder])
        self._status, reported = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(reported)
            null = stack.enter_context(Path(os.devnull).open("r+b"))
            files = [null if one is None else one for one in (stdin, stdout, stderr)]
            descriptors = [one if isinstance(one, int) else one.fileno() for one in files]
            socket.send_fds(_server(), [request.encode()], [*descriptors, reported.fileno()])
        self.pid = self._number()

    returncode: int | None

    def _number(self) -> int:
        found = self._status.recv(8)
        assert found, "the process that forks has ended"
        return int.from_bytes(found, "big", signed=True)

    def poll(self) -> int | None:
        """The exit status, negative for a signal. None: it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired after `timeout` seconds; None waits for ever."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._number()
            self._status.close()
        return self.returncode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_mqpg(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None,
    stdin: int | None = None, timeout: float = 120,
) -> "subprocess.CompletedProcess[str]":  # fmt: skip
    """Run `mqpg ARGUMENTS` to its end, as subprocess.run does with what it writes."""
    return run_forked(arguments, env=env, cwd=cwd, stdin=stdin, timeout=timeout)


def run_forked(
    arguments: Sequence[Any], *, timeout: float = 120, stdin: int | None = None, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a process to its end. The other options are those of `Forked`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Forked(arguments, stdin=stdin, stdout=out, stderr=err, **options)
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, status, _text(out), _text(err))


def as_script(path: str) -> None:
    """Do what `python PATH` does."""
    sys.argv = [path]
    sys.path[0] = str(Path(path).parent)
    runpy.run_path(path, run_name="__main__")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


@cache
def _server() -> socket.socket:
    """The process that forks, by the socket that it reads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    with theirs:
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class _Server:
    """Forks, and reports the pid and the end of each child on the socket that its request brought."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._running: dict[int, int] = {}

    def serve(self) -> Any:
        """Return, in a child only, what it has to call."""
        signal.signal(signal.SIGCHLD, self._report)
        while True:
            request, descriptors, _, _ = socket.recv_fds(self._requests, _LARGEST, 4)
            if not request:
                os._exit(0)
            function, arguments, environment, folder = json.loads(request)
            _prepare(function)
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGCHLD)
            pid = os.fork()
            if pid == 0:
                return self._begin(descriptors, environment, folder), function, arguments
            self._running[pid] = descriptors.pop()
            _send(self._running[pid], pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGCHLD)
            for descriptor in descriptors:
                os.close(descriptor)

    def _report(self, signum: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                report = self._running.pop(ended[0])
                with contextlib.suppress(OSError):  # nobody waits any more
                    _send(report, os.waitstatus_to_exitcode(ended[1]))
                os.close(report)

    def _begin(self, descriptors: list[int], environment: dict[str, str], folder: str) -> None:
        """Make the child what a process is that was started."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGCHLD)
        for target, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, target)
        os.closerange(3, max(*descriptors, *self._running.values(), self._requests.fileno()) + 1)
        self._requests.detach()
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        time.tzset()


def _prepare(function: str | None) -> None:
    """Import what children call here, so that it is done once."""
    if function is not None:
        import_module(function.partition(":")[0])


def _send(descriptor: int, number: int) -> None:
    os.write(descriptor, number.to_bytes(8, "big", signed=True))


def _import_all() -> None:
    """Import what children would import at its first use."""
    for name in mqpg.__all__:
        getattr(mqpg, name)
    places = [place for commands in COMMANDS.values() for place, _ in commands.values() if place]
    modules = {f"mqpg.cli.{place.partition(':')[0]}" for place in places}
    for name in modules.union(entry.module for entry in entry_points(group=GROUP)).union(_USED_BY_THEM):
        with contextlib.suppress(ModuleNotFoundError):  # of an extra that is not installed
            import_module(name)
    gc.collect()
    gc.freeze()  # children would look whether it is garbage, and so copy its pages


def _main() -> None:
    _import_all()
    _, function, arguments = _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    status = 1
    try:
        if function is None:
            sys.argv = ["mqpg", *arguments]
            sys.path[0] = str(Path.cwd())
            import_module("mqpg.cli").main()
        else:
            module, _, name = function.partition(":")
            getattr(import_module(module), name)(*arguments)
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    _end(status)


def _end(status: int) -> None:
    """End as the interpreter does, but leave what is imported: to take it apart costs more than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _main()
