"""The commands of docker-compose.yml, read from it and started without Docker as an ordinary user without a home: each
service becomes healthy. What only Docker can show is in test_compose.py.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from mqpg import migrate
from mqpg.embedded.programs import find_binaries
from mqpg.web.passwords import is_right, read_users
from tests.support.servers import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
# Root's tests become that user. It may read everything, as the user of an image may read what the image has, and
# write only what is its own.
READ_ALL = "-all,+dac_read_search"
AS_NOBODY = [
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    f"--inh-caps={READ_ALL}",
    f"--ambient-caps={READ_ALL}",
    f"--bounding-set={READ_ALL}",
]
PATIENCE = 150.0  # a JVM starts slowly on a busy machine


class Service:
    """One started service."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")[-3000:]

    def ended(self) -> int | None:
        return self.process.poll()

    def wait(self) -> int:
        return self.process.wait(PATIENCE * 2)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """By SIGTERM, as Docker does where the image names no other signal."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Compose:
    """Starts services of docker-compose.yml with their commands and environments, in a folder of their own."""

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        self.folder = folder
        self.services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
        self._replaced = replaced
        self._started: list[Service] = []

    def text(self, value: object) -> str:
        """A value with compose's defaults, and with what an outside run must replace: hosts, ports, /tmp."""
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def environment(self, name: str) -> dict[str, str]:
        given = {key: self.text(value) for key, value in self.services[name].get("environment", {}).items()}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"} | given

    def command(self, name: str) -> list[str]:
        service = self.services[name]
        return [self.text(word) for word in (*service.get("entrypoint", ()), *service["command"])]

    def start(self, name: str, *, program: str | None = None, more: list[str] | None = None, **extra: str) -> Service:
        first, *rest = self.command(name)
        command = [program or first, *rest, *(more or [])]
        if os.geteuid() == 0:
            command = [*AS_NOBODY, *command]
        log = self.folder / f"{name}-{len(list(self.folder.glob('*.log')))}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=self.environment(name) | extra,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(Service(process, log))
        return self._started[-1]

    def healthy(self, name: str) -> bool:
        """Whether the service's own health check passes."""
        _, program, *rest = [self.text(word) for word in self.services[name]["healthcheck"]["test"]]
        done = subprocess.run(
            [shutil.which(program, path=self.environment(name)["PATH"]) or program, *rest],
            env=self.environment(name),
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def become_healthy(self, service: Service, name: str) -> None:
        eventually(lambda: service.ended() is not None or self.healthy(name), PATIENCE, interval=0.5)
        assert service.ended() is None, service.log()

    def stop(self) -> None:
        for service in reversed(self._started):
            service.stop()
            # What it started itself, executors for example, is in its session.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(service.process.pid, signal.SIGKILL)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the ordinary user owns and can reach; pytest closes its own ones to all but root."""
    folder = Path(tempfile.mkdtemp(prefix="mqpg-compose-"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def compose(folder: Path) -> Iterator[Callable[..., Compose]]:
    made: list[Compose] = []

    def create(**replaced: str) -> Compose:
        made.append(Compose(folder, {"/tmp/": f"{folder}/", **replaced}))
        return made[-1]

    yield create
    for one in made:
        one.stop()


def broker(dsn: str) -> dict[str, str]:
    """The database of compose's services is the test's."""
    return {"postgresql://postgres:mqpg@postgres:5432/mqpg": dsn}


def worker_port(port: int) -> dict[str, str]:
    """Each container has the port of its own."""
    return {"0.0.0.0:9464": f"127.0.0.1:{port}"}


def initialise(data: Path, *more: str) -> None:
    command = [str(find_binaries() / "initdb"), "-D", str(data), "-U", "postgres", "-E", "UTF8", "--no-sync", *more]
    subprocess.run([*(AS_NOBODY if os.geteuid() == 0 else []), *command], check=True, capture_output=True)


def test_postgres_starts_with_its_command(compose: Callable[..., Compose], folder: Path) -> None:
    services = compose(**{"--host=127.0.0.1": f"--host={folder}"})
    data = folder / "data"
    binaries = find_binaries()
    initialise(data, "-A", "trust")
    service = services.start(
        "postgres",
        program=str(binaries / "postgres"),
        more=["-D", str(data), "-k", str(folder), "-c", "listen_addresses=", "-p", "5432"],
    )
    where = f"host={folder} port=5432 user=postgres dbname=postgres"
    eventually(lambda: service.ended() is not None or answers(where), PATIENCE)
    with psycopg.connect(where) as connection:
        assert connection.execute("show max_wal_size").fetchone() == ("2GB",)
    assert service.stop() == 0, service.log()


def test_migrate_and_two_workers(compose: Callable[..., Compose], empty_dsn: str) -> None:
    services = compose(**broker(empty_dsn))
    migration = services.start("migrate")
    assert migration.wait() == 0, migration.log()
    migrate.check(empty_dsn)
    copies = [compose(**broker(empty_dsn), **worker_port(port)) for port in (free_port(), free_port())]
    assert len(copies) == services.services["workers"]["deploy"]["replicas"]
    workers = [copy.start("workers") for copy in copies]
    for copy, started in zip(copies, workers, strict=True):
        copy.become_healthy(started, "workers")
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        sql = "select role, count(*) filter (where state = 'active') from mqpg.worker_status where alive group by role having count(*) = 2"
        eventually(
            lambda: any(w.ended() is not None for w in workers) or connection.execute(sql).rowcount == 3, PATIENCE
        )
        assert [w.ended() for w in workers] == [None, None], workers[0].log() + workers[1].log()
        assert sorted(connection.execute(sql).fetchall()) == [("appender", 1), ("compensator", 1), ("keeper", 1)]
        connection.execute("select mqpg.create_topic('t', queues => 1), mqpg.subscribe('g', 't'), mqpg.send('t', '1')")
        eventually(lambda: connection.execute("select from mqpg.receive('g', 't')").rowcount == 1, PATIENCE)
    assert [worker.stop() for worker in workers] == [0, 0], workers[0].log() + workers[1].log()


def test_the_dashboard(compose: Callable[..., Compose], dsn: str, folder: Path) -> None:
    port = free_port()
    users = shutil.copy(ROOT / "deploy/compose/web-users", folder / "web-users")
    assert is_right("mqpg", read_users(Path(users))["mqpg"])
    services = compose(
        **broker(dsn),
        **{"0.0.0.0": "127.0.0.1", "127.0.0.1:8765": f"127.0.0.1:{port}", "8765": str(port)},
        **{"/etc/mqpg/web-users": str(users)},
    )
    web = services.start("web")
    services.become_healthy(web, "web")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        assert b"password" in answer.read()
    web.stop()


def test_prometheus_finds_what_a_worker_serves(compose: Callable[..., Compose], dsn: str) -> None:
    """The address and the path of its configuration, with one container's host."""
    (job,) = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text("utf-8"))["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    port = free_port()
    services = compose(**broker(dsn), **worker_port(port))
    assert found["names"] == ["workers"]
    assert services.services["workers"]["command"][-1].endswith(f":{found['port']}")
    worker = services.start("workers")
    services.become_healthy(worker, "workers")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{job.get('metrics_path', '/metrics')}") as answer:
        assert b"mqpg_up 1.0" in answer.read()


@pytest.mark.timeout(400)
def test_standby_follows_and_takes_over(compose: Callable[..., Compose], folder: Path) -> None:
    """The scripts of the profile ha, with a stand-in for the image's entrypoint and its access rules."""
    binaries, password = find_binaries(), folder / "password"
    password.write_text("mqpg")
    data, ports = folder / "primary", (free_port(), free_port())
    initialise(data, "-A", "scram-sha-256", f"--pwfile={password}")
    rules = data / "pg_hba.conf"
    rules.write_text("local all all trust\nhost all all all scram-sha-256\n")  # those of the image
    subprocess.run([ROOT / "deploy/compose/replication.sh"], env={"PGDATA": str(data)}, check=True)
    (folder / "docker-entrypoint.sh").write_text(f'#!/bin/sh\nexec "$@" -k {folder} -p {ports[1]}\n')
    (folder / "docker-entrypoint.sh").chmod(0o755)
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    services = compose(
        **worker_port(free_port()),
        **{
            "/usr/local/bin/standby.sh": str(ROOT / "deploy/compose/standby.sh"),
            "/var/lib/postgresql/mqpg": str(folder / "standby"),
            "@postgres:5432/mqpg": f"@{hosts}/postgres",
        },
    )
    primary = services.start(
        "postgres", program=str(binaries / "postgres"), more=["-D", str(data), "-k", str(folder), "-p", str(ports[0])]
    )
    first, second = (f"postgresql://postgres:mqpg@127.0.0.1:{port}/postgres" for port in ports)
    eventually(lambda: primary.ended() is not None or answers(first), PATIENCE)
    migrate.upgrade(first)
    path = os.pathsep.join([str(folder), str((binaries / "postgres").parent), os.environ["PATH"]])
    standby = services.start("standby", PATH=path, PGHOST="127.0.0.1", PGPORT=str(ports[0]))
    eventually(lambda: standby.ended() is not None or answers(second), PATIENCE)
    assert standby.ended() is None, standby.log()
    worker = services.start("workers")
    services.become_healthy(worker, "workers")
    with psycopg.connect(first, autocommit=True) as connection:
        connection.execute("select mqpg.create_topic('t', queues => 1), mqpg.subscribe('g', 't'), mqpg.send('t', '1')")
        row = connection.execute("select application_name, state from pg_stat_replication").fetchone()
        assert row == ("standby", "streaming")
        sql = "select pg_current_wal_flush_lsn() <= replay_lsn from pg_stat_replication"
        eventually(lambda: connection.execute(sql).fetchone() == (True,), PATIENCE)
    assert primary.stop(signal.SIGINT) == 0, primary.log()  # the image's signal: a fast shutdown
    with psycopg.connect(second, autocommit=True) as connection:
        assert connection.execute("select pg_promote()").fetchone() == (True,)
        receive = "select payload from mqpg.receive('g', 't')"
        assert eventually(lambda: received(connection, receive), PATIENCE, 0.2, worker.log) == [(1,)]
    assert worker.stop() == 0, worker.log()


def answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def received(connection: psycopg.Connection[Any], sql: str) -> list[tuple[Any, ...]]:
    """Nothing while the worker has not yet adopted the promoted server."""
    try:
        return connection.execute(sql.encode()).fetchall()
    except psycopg.DatabaseError:
        return []


@pytest.mark.spark
@pytest.mark.audits
@pytest.mark.timeout(900)
def test_spark_master_worker_and_audit(compose: Callable[..., Compose], dsn: str) -> None:
    master, page = free_port(), free_port()
    services = compose(
        **broker(dsn),
        **{
            "spark://spark-master:7077": f"spark://127.0.0.1:{master}",
            "127.0.0.1:8080": f"127.0.0.1:{page}",
            "spark-master:8080": f"127.0.0.1:{page}",
            "spark-master": "127.0.0.1",
        },
    )
    ports: dict[str, Any] = {
        "SPARK_MASTER_PORT": str(master),
        "SPARK_MASTER_WEBUI_PORT": str(page),
        "SPARK_WORKER_WEBUI_PORT": "0",
    }
    first = services.start("spark-master", **ports)
    services.become_healthy(first, "spark-master")
    assert not services.healthy("spark-worker")
    second = services.start("spark-worker", **ports)
    services.become_healthy(second, "spark-worker")
    with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/") as answer:
        (worker,) = json.load(answer)["workers"]
    assert worker["memory"] == 2048
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select mqpg.create_topic('t', queues => 1), mqpg.subscribe('g', 't'), mqpg.send('t', '1')")
        connection.execute("select mqpg.append()")
    audit = services.start("audit")
    assert audit.wait() == 0, audit.log() + second.log()
