"""Patroni promotes the standby, and mqpg continues there without anybody's help."""

import json
import os
from pathlib import Path

import pytest

from lab.failover.__main__ import run
from lab.failover.patroni import managed

pytestmark = [pytest.mark.patroni, pytest.mark.timeout(1200)]


def test_the_worker_adopts_what_patroni_promotes(tmp_path: Path, seed: int) -> None:
    """`TRIALS` failovers (3) in a row. Each time the killed node comes back as the standby.

    A mutation that this notices: the worker runs without --adopt-promoted.
    """
    report = run(int(os.environ.get("TRIALS") or 3), seed, tmp_path, managed())
    print(json.dumps(report))
    assert (report["wrong"], report["verdict"]) == ([], "valid")


def test_patronis_callback_adopts_for_a_worker_that_does_not(tmp_path: Path, seed: int) -> None:
    """`deploy/patroni/adopt.sh` runs `mqpg migrate adopt --promoted` on the new primary.

    A mutation that this notices: the configuration has no callback.
    """
    report = run(1, seed, tmp_path, managed(hook=True), worker=())
    print(json.dumps(report))
    assert (report["wrong"], report["verdict"]) == ([], "valid")
