"""The command `mqpg`.

Results go to stdout, logs and errors to stderr. The exit status is 0 for success, 1 for a negative
result, 2 for wrong usage or an unknown name, 3 where there is no connection or the schema is
missing or too old, and 4 where the schema is too new for this release.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from mqpg.cli import all_day

__all__ = ["main"]

_BROKEN_PIPE = 141  # what a shell reports of a process that SIGPIPE ended


def _mqpg() -> None:
    if all_day.is_meant(sys.argv[1:]):
        all_day.parse_in_a_child(_parse)
    else:
        _parse()


def _parse() -> None:
    from mqpg.cli.root import app  # what runs all day does not load it

    app(prog_name="mqpg")


def main(command: Callable[[], None] = _mqpg) -> None:
    """Run a command, `mqpg` by default. Every expected failure is one line on stderr, and raises SystemExit."""
    _open_streams()
    _accept_any_text()
    try:
        command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        _leave_the_pipe()
    except SystemExit as ended:
        # typer and rich end with 1, which says something else, if a line cannot be written.
        if isinstance(ended.__context__, BrokenPipeError):
            _leave_the_pipe()
        raise
    except Exception as error:
        from mqpg.cli.failures import explained  # help needs no psycopg

        found = explained(error)
        if found is None:
            raise
        line, status = found
        sys.stderr.write(f"mqpg: {line}\n")
        raise SystemExit(status) from error


def _leave_the_pipe() -> NoReturn:
    """End, because the reader is gone. Without another file Python would complain about it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(_BROKEN_PIPE) from None


def _open_streams() -> None:
    """Open what a program was started without, as by `<&-`. Otherwise a connection would take its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest one that is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


def _accept_any_text() -> None:
    """Print what cannot be encoded as escapes, instead of ending with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
