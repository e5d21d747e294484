"""The example over Spark Connect: the program is a client of a server, and has no JVM of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mqpg

pytestmark = [pytest.mark.spark, pytest.mark.audits]

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "orders_pipeline.py"
SLOW = "failed to connect back"  # a Python process took longer than Spark waits for it


def test_the_example_over_connect(dsn: str, tmp_path: Path) -> None:
    given = {"MQPG_DATABASE_URL": dsn, "PYSPARK_PYTHON": sys.executable, "SPARK_REMOTE": "local[2]"}
    for _ in range(5):  # each run continues where the last one ended
        done = subprocess.run(
            [sys.executable, str(EXAMPLE)], cwd=tmp_path, env=os.environ | given, capture_output=True, text=True, check=False
        )  # fmt: skip
        if done.returncode == 0 or SLOW not in done.stdout + done.stderr:
            break
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    with mqpg.connect(dsn) as mq:
        sent = sum(len(mq.fetch("orders", queue, 0, 10_000)) for queue in range(8))
    assert sent >= 100
    found = json.loads(done.stdout[done.stdout.rindex("{") :])
    assert found == {"orders": sent * 9 // 10, "places": sent * 9 // 10, "amount": sent * 45}
