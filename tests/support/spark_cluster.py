"""A standalone Spark cluster on this machine: a master and two workers that share no folder with the driver.

As root each worker has a mount namespace of its own, in which the folder of the driver's temporary
files is another, empty one. As any other user it has temporary folders of its own.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tests.support.waiting import eventually

__all__ = ["Cluster", "running_cluster"]

SPARK = Path(pyspark.__file__).parent
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_DEPLOY = "org.apache.spark.deploy"


@dataclass
class Cluster:
    """The processes of the cluster.

    Attributes:
        root: A folder for all files of the cluster.
        master: The master's URL.
        isolated: Whether the workers see another `driver_files` than the driver does.
    """

    root: Path
    master: str = ""
    isolated: bool = False
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def driver_files(self) -> Path:
        """The driver's folder of temporary files."""
        return self.root / "driver"

    def environment(self) -> dict[str, str]:
        """The variables of a driver."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG", "SPARK_"))}
        return kept | {"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(self.driver_files), "SPARK_HOME": str(SPARK)}

    def start(self) -> None:
        """Start the master and the workers, and wait until both workers have registered."""
        self.driver_files.mkdir(parents=True)
        self.isolated = _may_unshare()
        log = self._run("master", f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        found = eventually(lambda: _MASTER.search(log.read_text()), 180, 0.2, log.read_text)
        assert found is not None
        self.master = found.group(1)
        for name in ("one", "two"):
            self._worker(name)
        eventually(lambda: log.read_text().count("Registering worker") == 2, 180, 0.2, log.read_text)

    def _worker(self, name: str) -> None:
        own = self.root / name
        (own / "tmp").mkdir(parents=True)
        options = ("-c", "1", "-m", "1g", "-d", str(own), "--webui-port", "0", "--host", "127.0.0.1", self.master)
        variables = {"SPARK_LOCAL_DIRS": str(own / "tmp"), "TMPDIR": str(own / "tmp")}
        hidden = f'mount -t tmpfs none "{self.driver_files}" && exec "$@"'
        before = ("unshare", "-m", "sh", "-c", hidden, "sh") if self.isolated else ()
        self._run(name, f"{_DEPLOY}.worker.Worker", *options, before=before, variables=variables)

    def _run(
        self, name: str, main: str, *options: str, before: tuple[str, ...] = (), variables: dict[str, str] | None = None
    ) -> Path:
        log = self.root / f"{name}.log"
        command = [*before, "bash", str(SPARK / "bin" / "spark-class"), main, *options]
        memory = {"SPARK_DAEMON_MEMORY": "256m"}
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    command, stdout=output, stderr=output, env=self.environment() | memory | (variables or {})
                )
            )
        return log

    def stop(self) -> None:
        """Stop all processes, the workers first. A worker ends its executors."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


def _may_unshare() -> bool:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    script = "mount -t tmpfs none /mnt"
    return subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def running_cluster(root: Path) -> Iterator[Cluster]:
    """Run a cluster until the block ends.

    Args:
        root: A new folder for its files.

    Yields:
        The cluster.
    """
    cluster = Cluster(root)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
