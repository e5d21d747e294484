"""pgbench as the client that sends one message at a time: it needs little of the processor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mqpg.embedded import find_binaries
from mqpg.errors import ConfigurationError

__all__ = ["drive", "find"]

_THREADS = 2
_GRACE = 120.0  # seconds beyond the measured ones after which pgbench is regarded as stuck
_DONE = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: ([1-9]\d*)", re.MULTILINE)
_RATE = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


def find() -> str:
    """The path of pgbench among the server's programs, or else of the one on PATH."""
    found = shutil.which("pgbench", path=f"{find_binaries()}{os.pathsep}{os.environ['PATH']}")
    if not found:
        raise ConfigurationError("pgbench was not found: install PostgreSQL's client programs")
    return found


def drive(
    dsn: str, scripts: Sequence[str], clients: int, seconds: float, variables: Mapping[str, str]
) -> tuple[int, float]:
    """Run the scripts, chosen at random, for `seconds`.

    A variable, written `:name` in a script, is a parameter of the prepared statement, as a value is
    in an application. A literal would be parsed only once, when the statement is planned.

    Returns:
        How many times a script was run to its end, in all and per second.
    """
    with TemporaryDirectory(prefix="mqpg-bench-") as folder:
        command = [find(), "--no-vacuum", "--protocol=prepared", f"--client={clients}", f"--jobs={_THREADS}"]
        command += [f"--time={max(1, round(seconds))}"]
        command += [f"--define={name}={value}" for name, value in variables.items()]
        for number, script in enumerate(scripts):
            path = Path(folder, f"{number}.sql")
            path.write_text(script)
            command.append(f"--file={path}")
        target = conninfo_to_dict(dsn)
        password = target.pop("password", None)  # arguments are in the list of processes
        environment = os.environ | ({"PGPASSWORD": str(password)} if password is not None else {})
        environment |= {"PGOPTIONS": "-c synchronous_commit=on", "PGAPPNAME": "mqpg-bench produce"}
        ended = subprocess.run(
            [*command, make_conninfo("", **target)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds + _GRACE,
            check=False,
        )
    done, rate = _DONE.search(ended.stdout), _RATE.search(ended.stdout)
    if ended.returncode or not done or not rate or _FAILED.search(ended.stdout):
        raise RuntimeError(f"pgbench ended with {ended.returncode}:\n{ended.stderr.strip()}\n{ended.stdout.strip()}")
    return int(done[1]), float(rate[1])
