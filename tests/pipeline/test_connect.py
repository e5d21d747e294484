"""The examples over Spark Connect: each program is a client of a server, and has no JVM of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mqpg
from tests.support.spark_cluster import SPARK

pytestmark = [pytest.mark.spark, pytest.mark.audits]

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
SLOW = ("failed to connect back", "waiting for the Python worker")  # a Python process took longer than Spark waits


def run(command: list[str], dsn: str, folder: Path, **variables: str) -> str:
    """Run a program in the folder. Returns what it prints."""
    given = os.environ | {"MQPG_DATABASE_URL": dsn, "PYSPARK_PYTHON": sys.executable} | variables
    for _ in range(5):  # each run continues where the last one ended
        done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        # With a Python source spark-pipelines 4.3 fails when the run has ended: its client knows no accumulators.
        ended = done.returncode == 0 or ("Run is COMPLETED" in said and "UNKNOWN_RESPONSE" in said)
        if ended or not any(slow in said for slow in SLOW):
            break
    assert ended, said[-10_000:]
    return done.stdout


def test_the_example_over_connect(dsn: str, tmp_path: Path) -> None:
    said = run([sys.executable, str(EXAMPLES / "orders_pipeline.py")], dsn, tmp_path, SPARK_REMOTE="local[2]")
    with mqpg.connect(dsn) as mq:
        sent = mq.to_arrow("orders").num_rows
    assert sent >= 100
    found = json.loads(said[said.rindex("{") :])
    assert found == {"orders": sent * 9 // 10, "places": sent * 9 // 10, "amount": sent * 45}


def test_a_declarative_pipeline(dsn: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "declarative", tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/var/lib/orders", str(tmp_path / "storage")))
    with mqpg.connect(dsn) as mq:
        mq.create_topic("orders")
        mq.create_topic("clean_orders")
        mq.create_producer_group("spark")
        for first in (1, 51):
            mq.send_batch("orders", [{"id": n, "amount": n if n % 10 else None} for n in range(first, first + 50)])
            mq.append()
            run(["bash", str(SPARK / "bin" / "spark-pipelines"), "run", "--remote", "local[2]"], dsn, tmp_path)
            mq.append()
            clean = mq.to_arrow("clean_orders")["payload"].to_pylist()
            assert sorted(json.loads(one)["id"] for one in clean) == [n for n in range(1, first + 50) if n % 10]
