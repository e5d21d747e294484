"""Processes to be killed.

They are forked from one process that has imported everything, so a crash costs milliseconds.
`python -m tests.failures.zygote` reads one request a line, forks, and answers with how the child
ended. A child is a process of its own, with its own connections, and SIGKILL ends it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Zygote", "die_at"]

_ROOT = Path(__file__).resolve().parents[2]


class Zygote:
    """Starts actors (functions of tests/failures/actors.py) and reports how they ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.failures.zygote"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def killed(self, actor: str, when: str, step: str, nth: int = 1, **arguments: Any) -> None:
        """Run an actor until SIGKILL ends it before or after the nth call of `step`.

        A step is, for example, "mqpg:Client.ack".
        """
        status, errors = self._run(actor, arguments, [when, step, nth])
        assert status == -signal.SIGKILL, f"{actor} was to die {when} {step}, but ended with {status}\n{errors}"

    def finished(self, actor: str, **arguments: Any) -> None:
        """Run an actor to its end."""
        status, errors = self._run(actor, arguments, None)
        assert status == 0, errors

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _run(self, actor: str, arguments: dict[str, Any], death: list[Any] | None) -> tuple[int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"actor": actor, "arguments": arguments, "death": death}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status, errors = json.loads(self._process.stdout.readline())
        return status, errors


def die_at(when: str, step: str, nth: int = 1) -> None:
    """Have this process kill itself before or after a call of `module:name` or `module:Class.name`."""
    module, _, path = step.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


def _child(request: dict[str, Any], errors: int) -> None:
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    try:
        from tests.failures import actors

        if request["death"] is not None:
            die_at(*request["death"])
        getattr(actors, request["actor"])(**request["arguments"])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main() -> None:
    importlib.import_module("tests.failures.actors")
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        with tempfile.TemporaryFile() as errors:
            pid = os.fork()
            if pid == 0:
                _child(json.loads(line), errors.fileno())
            _, status = os.waitpid(pid, 0)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        answers.write(json.dumps([os.waitstatus_to_exitcode(status), said]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
