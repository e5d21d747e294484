"""The audit on a cluster whose executors share no folder with the driver."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mqpg.spark.cli import submit
from mqpg.spark.read.jdbc_jar import find_jdbc_jar
from tests.audit.story import Story, Trio
from tests.support.spark_cluster import SPARK, Cluster, running_cluster

pytestmark = [pytest.mark.spark, pytest.mark.audits]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster") / "root") as running:
        yield running


def audit(cluster: Cluster, trio: Trio, *command: str, **variables: str) -> Any:
    databases = ("--dsn", trio.broker, "--ledger", f"shop={trio.ledger}", "--applied", f"board={trio.consumer}")
    done = subprocess.run(
        [*command, "audit", "--engine", "spark", *databases, "--json"],
        capture_output=True,
        text=True,
        timeout=550,
        env=cluster.environment() | variables,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    # spark-submit writes what goes to stderr, such as a warning, to stdout.
    return json.loads(done.stdout[done.stdout.index("{\n") :])


def test_executors_keep_the_frames(cluster: Cluster, trio: Trio, story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied)")
    report = audit(cluster, trio, sys.executable, "-m", "mqpg", MQPG_SPARK_MASTER=cluster.master)
    assert report["run"]["master"] == cluster.master
    assert report["verdict"] == "invalid"
    assert {kind: count for kind, count in report["anomalies"]["by_kind"].items() if count} == {"lost": 1}
    assert [(topic["committed"], topic["queued"]) for topic in report["topics"]] == [(66, 66)]
    assert list(cluster.driver_files.rglob("*.parquet")) == []


def test_spark_submit_decides(cluster: Cluster, trio: Trio) -> None:
    report = audit(
        cluster,
        trio,
        *("bash", str(SPARK / "bin" / "spark-submit"), "--master", cluster.master),
        *("--conf", "spark.log.level=ERROR", "--jars", str(find_jdbc_jar().path), str(submit.__file__)),
        MQPG_SPARK_MASTER="local[1]",  # spark-submit wins.
        PYSPARK_PYTHON=sys.executable,
    )
    assert report["run"]["master"] == cluster.master
    assert (report["verdict"], report["reasons"]) == ("valid", [])
    assert [(topic["committed"], topic["queued"]) for topic in report["topics"]] == [(66, 66)]
