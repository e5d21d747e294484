"""Processes that kill themselves with SIGKILL before or after a named step."""

import os
import signal
import tempfile
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

from tests.support.forking import Forked

__all__ = ["die_at", "finished", "killed"]

_SECONDS = 120  # after which a process that neither died nor ended is ended


def killed(module: str, *arguments: Any) -> None:
    """Call `main` of a module in a process until that is dead by its own SIGKILL."""
    status, errors = _call(module, arguments)
    assert status == -signal.SIGKILL, f"{module} {arguments} was to die, but ended with {status}\n{errors}"


def finished(module: str, *arguments: Any) -> None:
    """Call `main` of a module in a process, to its end."""
    status, errors = _call(module, arguments)
    assert status == 0, errors


def die_at(step: str, when: str, nth: int = 1) -> None:
    """Make this process kill itself before or after the nth call of a step: `module:name` or `module:Class.name`."""
    module, _, path = step.partition(":")
    *parents, name = path.split(".")
    owner = reduce(getattr, parents, import_module(module))
    call: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = call(*args, **kwargs)
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


def _call(module: str, arguments: tuple[Any, ...]) -> tuple[int, str]:
    with tempfile.TemporaryFile() as errors:
        process = Forked(arguments, function=f"{module}:main", stdout=errors, stderr=errors)
        try:
            status = process.wait(_SECONDS)
        finally:
            process.kill()
        errors.seek(0)
        return status, errors.read().decode(errors="replace")
