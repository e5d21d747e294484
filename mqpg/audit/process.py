"""`mqpg audit` in a process of its own, for the demo and the chaos run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqpg.connection.dsn import to_sqlalchemy

from .faults import Fault, write_faults

__all__ = ["Finished", "audit_in_process", "without_password"]


@dataclass(frozen=True, slots=True)
class Finished:
    """An audit that has ended: its exit status, its report if it gave one, the end of what it said on stderr."""

    status: int
    report: dict[str, Any] | None
    words: str


def audit_in_process(
    dsn: str,
    arguments: Sequence[str],
    *,
    page: Path | None = None,
    faults: Sequence[Fault] = (),
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run one audit.

    Passwords go through the environment, because every user of the machine can read arguments: that of the
    broker in its DSN, and the same one as PGPASSWORD for the other databases, which `arguments` name by what
    `without_password` returns.

    Args:
        dsn: The broker's DSN.
        arguments: The arguments of `mqpg audit`, apart from the DSN and the output.
        page: The file for the HTML page. None means that none is written.
        faults: What the page shows as faults.
        environment: More variables, or other values. None means none.
    """
    command = [sys.executable, "-m", "mqpg", "audit", "--json", *arguments]
    password = to_sqlalchemy(dsn).password
    variables = {"MQPG_DATABASE_URL": dsn} | ({"PGPASSWORD": password} if password else {}) | dict(environment or {})
    with tempfile.NamedTemporaryFile(prefix="mqpg-faults-", suffix=".jsonl") as log:
        if page is not None:
            write_faults(Path(log.name), faults)
            command += ["--html", str(page), "--faults", log.name]
        done = subprocess.run(
            command, env=os.environ | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = None
    return Finished(done.returncode, report, " ".join(done.stderr.split()[-60:]))


def without_password(dsn: str) -> str:
    """The URL of a database without its password, from a DSN in any notation."""
    return to_sqlalchemy(dsn)._replace(password=None).render_as_string(hide_password=False)
