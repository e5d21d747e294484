"""Runs whose faults need more than PostgreSQL: a small file system, and libfaketime."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.rounds, pytest.mark.chaos, pytest.mark.timeout(900)]

# The tests must not need root: in a user namespace of its own a process may mount.
MAY_MOUNT = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"]


@pytest.mark.parametrize(("kind", "prefix"), [("disk", MAY_MOUNT), ("clock", [])])
def test_a_run_is_valid(kind: str, prefix: list[str]) -> None:
    options = f"--faults {kind} --rounds 4 --interval 2 --seed 12 --rate 100 --engines sql --json".split()
    command = [*prefix, sys.executable, "-m", "lab.chaos", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["strikes"], found["ended_by_themselves"]) == ("valid", {kind: 4}, [])
