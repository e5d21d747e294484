"""Processes that kill themselves with SIGKILL before or after a named step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["die_at", "killed"]

_ROOT = Path(__file__).resolve().parents[2]


def killed(module: str, *arguments: str) -> None:
    """Run a module until it is dead by its own SIGKILL."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=_ROOT, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def die_at(owner: Any, name: str, when: str) -> None:
    """Make this process kill itself before or after function `name` of `owner` is called."""
    step: Callable[..., Any] = getattr(owner, name)

    def deadly(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            step(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, deadly)
