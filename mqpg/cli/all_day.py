"""Commands that run all day: what reads their options is loaded in a child, which ends with that.

typer, and pydantic with it, take 10 MB that the process would keep.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__all__ = ["is_meant", "parse_in_a_child", "start"]

_COMMANDS = frozenset({"worker", "consume"})

_parent: int | None = None  # in the child: where it writes what it has read


def is_meant(arguments: Sequence[str]) -> bool:
    """Whether these are the arguments of such a command, and typer is not loaded anyway."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    return command in _COMMANDS and "typer" not in sys.modules


def parse_in_a_child(parse: Callable[[], None]) -> None:
    """Read the options in a child, and call here what it gives to `start`.

    Raises SystemExit with the child's status if that is not 0.
    """
    global _parent
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _parent = write_end
        parse()
        return
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise SystemExit(status if status > 0 else 128 - status)
    if said:  # else it was --help
        _call(*json.loads(said))


def start(function: str, **options: Any) -> None:
    """Call a function (`module:name`) with what was read, which can be written as JSON."""
    if _parent is None:
        _call(function, options)
    else:
        os.write(_parent, json.dumps([function, options]).encode())


def _call(function: str, options: dict[str, Any]) -> None:
    module, _, name = function.partition(":")
    getattr(import_module(module), name)(**options)
