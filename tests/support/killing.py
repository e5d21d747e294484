"""Processes that kill themselves with SIGKILL before or after a named step.

They are forked from one process that has imported the library, so a crash costs milliseconds: `python -m
tests.support.killing` reads one request a line, forks, calls `main` of a module in the child, and answers with how the
child ended. A child is a process of its own, with its own connections.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["die_at", "finished", "killed"]

_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 60  # after which a child that neither died nor ended is ended


def killed(module: str, *arguments: Any) -> None:
    """Call `main` of a module in a process until that is dead by its own SIGKILL."""
    status, errors = _call(module, arguments)
    assert status == -signal.SIGKILL, f"{module} {arguments} was to die, but ended with {status}\n{errors}"


def finished(module: str, *arguments: Any) -> None:
    """Call `main` of a module in a process, to its end."""
    status, errors = _call(module, arguments)
    assert status == 0, errors


def die_at(owner: Any, name: str, when: str, nth: int = 1) -> None:
    """Make this process kill itself before or after the nth call of function `name` of `owner`."""
    step: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = step(*args, **kwargs)
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


@cache
def _forking() -> subprocess.Popen[str]:
    """The process that forks."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process


def _call(module: str, arguments: tuple[Any, ...]) -> tuple[int, str]:
    process = _forking()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([module, arguments]) + "\n")
    process.stdin.flush()
    status, errors = json.loads(process.stdout.readline())
    return status, errors


def _child(module: str, arguments: list[Any], errors: int) -> None:
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    signal.alarm(_SECONDS)
    try:
        import_module(module).main(*arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        module, arguments = json.loads(line)
        import_module(module)  # here, so that its imports are done once
        with tempfile.TemporaryFile() as errors:
            pid = os.fork()
            if pid == 0:
                _child(module, arguments, errors.fileno())
            _, status = os.waitpid(pid, 0)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        answers.write(json.dumps([os.waitstatus_to_exitcode(status), said]) + "\n")
        answers.flush()


if __name__ == "__main__":
    _main()
