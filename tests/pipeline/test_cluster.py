"""A stream from topic to topic on a cluster of two workers, while its driver, its executors and the broker are killed.

`make test-audit` runs three rounds. MQPG_TEST_ROUNDS and MQPG_TEST_SEED choose others.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

import mqpg
from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.engine import run_audit
from tests.fixtures.databases import OwnServer
from tests.support.spark_cluster import SPARK, Cluster, running_cluster
from tests.support.waiting import eventually

ROUNDS = int(os.environ.get("MQPG_TEST_ROUNDS", "3"))
MESSAGES = 3000  # of a round; a batch has 1000
PROGRAM = Path(__file__).with_name("clustered.py")
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = (
    "spark.cores.max=2",
    "spark.scheduler.minRegisteredResourcesRatio=1.0",  # otherwise the first executor could read everything
    "spark.log.level=WARN",
    "spark.driver.memory=512m",
    "spark.executor.memory=512m",
    f"spark.driver.extraJavaOptions={QUICK_JVM}",
    f"spark.executor.extraJavaOptions={QUICK_JVM}",
)

pytestmark = [pytest.mark.spark, pytest.mark.audits, pytest.mark.timeout(1200 + 600 * ROUNDS)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster") / "root") as running:
        yield running


class Copying:
    """The program, which is started again whenever it has ended before all is copied."""

    def __init__(self, cluster: Cluster, server: OwnServer, folder: Path) -> None:
        self._cluster, self._dsn, self._log = cluster, server.dsn, folder / "log"
        self._arguments = [server.dsn, str(folder / "checkpoint")]
        self._driver: psutil.Popen | None = None
        self.sent = self.starts = 0
        with mqpg.connect(self._dsn) as mq:
            mq.create_topic("orders", queues=4)
            mq.create_topic("copy", queues=4)
            # No worker rolls back what dead tasks leave, so it must not become due.
            mq.create_producer_group("spark", check_after="1 day", expire_after="1 day", max_undecided=100_000)

    def send(self) -> None:
        """Send the messages of a round."""
        numbers = range(self.sent, self.sent + MESSAGES)
        with mqpg.connect(self._dsn) as mq:
            mq.send_batch("orders", [{"n": n} for n in numbers], keys=[str(n) for n in numbers])
            mq.append()
        self.sent += MESSAGES

    def copied(self, ends: str = "never") -> int:
        """How many messages topic `copy` has. Starts the program if it does not run and there is more to copy."""
        with mqpg.connect(self._dsn) as mq, psycopg.connect(self._dsn) as connection:
            mq.append()
            row = connection.execute("select sum(next_offset)::int from mqpg.topic_offsets('copy')").fetchone()
        assert row is not None
        if row[0] < self.sent and (self._driver is None or self._driver.poll() is not None):
            self._start(ends)
        return int(row[0])

    def _start(self, ends: str) -> None:
        options = [word for setting in SETTINGS for word in ("--conf", setting)]
        command = ["bash", str(SPARK / "bin" / "spark-submit"), "--master", self._cluster.master, *options]
        with self._log.open("ab") as log:
            self._driver = psutil.Popen(
                [*command, str(PROGRAM), *self._arguments, ends],
                stdout=log,
                stderr=log,
                env=self._cluster.environment() | {"PYSPARK_PYTHON": sys.executable},
            )
        self.starts += 1

    def wait_for(self, copies: int, ends: str = "never") -> None:
        """Wait until so many messages are copied."""
        eventually(lambda: self.copied(ends) >= copies, 900, 0.2, lambda: self._log.read_text()[-20_000:])

    def kill_driver(self) -> None:
        """Kill the JVM of the driver. Its Python processes notice that by themselves."""
        assert self._driver is not None
        self._driver.kill()
        self._driver.wait()

    def kill_executor(self, rng: random.Random) -> None:
        """Kill the executor of one of the workers."""
        workers = [psutil.Process(process.pid) for process in self._cluster.processes[1:]]
        rng.choice(eventually(lambda: [child for worker in workers for child in worker.children()])).kill()

    def check(self) -> set[str]:
        """Compare the ids and audit. Returns the names of the workers that have read."""
        with mqpg.connect(self._dsn) as mq:
            mq.append()
            copies = mq.to_arrow("copy").to_pylist()
        assert sorted(json.loads(one["payload"])["n"] for one in copies) == list(range(self.sent))
        report = run_audit(AuditOptions(self._dsn))
        assert (report.verdict.value, {kind: n for kind, n in report.anomalies.items() if n}) == ("valid", {})
        return {one["tag"] for one in copies}

    def stop(self) -> None:
        """End the program."""
        if self._driver is not None:
            self._driver.kill()
            self._driver.wait()


@pytest.fixture
def copying(cluster: Cluster, own_server: OwnServer, tmp_path: Path) -> Iterator[Copying]:
    copying = Copying(cluster, own_server, tmp_path)
    yield copying
    copying.stop()


def test_both_workers_read_and_write(copying: Copying) -> None:
    copying.send()
    copying.wait_for(MESSAGES, "now")
    assert copying.check() == {"one", "two"}


def test_each_message_is_copied_once_whatever_is_killed(
    copying: Copying, own_server: OwnServer, rng: random.Random, seed: int
) -> None:
    kills = [("driver", "executor", "broker")[number % 3] for number in range(ROUNDS)]
    rng.shuffle(kills)
    for whom in kills:
        copying.send()
        copying.wait_for(copying.sent - MESSAGES + 1)
        time.sleep(2 * rng.random())  # any moment of a batch
        if whom == "driver":
            copying.kill_driver()
        elif whom == "executor":
            copying.kill_executor(rng)
        else:
            own_server.crash()
    copying.wait_for(copying.sent)
    copying.check()
    print(f"seed {seed}, kills {dict(Counter(kills))}, starts {copying.starts}, ids {copying.sent}: sets equal, valid")
