"""The two brokers of the comparison. Whichever is not measured is stopped, so that it takes no processor time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

import mqpg
from lab.bench.server import SETTINGS
from lab.processes import LabError, Process, environment, persist
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from mqpg.schema.copies import settle_in
from tests.support.servers import free_ports

__all__ = ["Brokers", "class_path"]

_HERE = Path(__file__).parent
_HEAP = {"namesrv": "256m", "broker": "3g"}
_MAIN = {"namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup", "broker": "org.apache.rocketmq.broker.BrokerStartup"}
_QUEUES = 8
_BROKER = """
brokerName=bench
namesrvAddr={namesrv}
listenPort={port}
brokerIP1=127.0.0.1
storePathRootDir={store}
flushDiskType=SYNC_FLUSH
defaultTopicQueueNums={queues}
"""


def class_path(folder: Path) -> str:
    """Fetch RocketMQ, its client and the JDBC driver by Maven, and compile the program, once.

    Args:
        folder: Where the compiled program and the class path are kept.

    Returns:
        The class path, with the program in it.

    Raises:
        LabError: There is no Maven or JDK, or it failed.
    """
    listed = folder / "classpath.txt"
    if not listed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        copied = f"-Dmdep.outputFile={listed}"
        _run("mvn", "-q", "-B", "-f", str(_HERE / "pom.xml"), "dependency:build-classpath", copied)
    jars = listed.read_text(encoding="utf-8").strip()
    _run("javac", "-nowarn", "-cp", jars, "-d", str(folder), str(_HERE / "Bench.java"))
    return f"{folder}:{jars}"


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed: the comparison needs Maven and a JDK of 17 or newer") from None
    except subprocess.CalledProcessError as error:
        raise LabError(f"{command[0]} failed: {(error.stdout + error.stderr).strip()[-500:]}") from None


class Brokers:
    """A PostgreSQL server with mqpg and its worker, and RocketMQ's name server and broker.

    Args:
        classes: The class path.
        folder: An empty folder for data and logs.
        server: The PostgreSQL server, which also has the business's database.
    """

    def __init__(self, classes: str, folder: Path, server: EmbeddedServer) -> None:
        self._classes, self._folder, self._server = classes, folder, server
        self._started: dict[str, Process] = {}

    @classmethod
    @contextmanager
    def running(cls, classes: str, folder: Path) -> Iterator[Brokers]:
        """Start everything, and end it at the end of the block."""
        with EmbeddedServer(settings=SETTINGS | {"max_connections": 200}) as server:
            found = cls(classes, folder, server)
            try:
                found._start()
                yield found
            finally:
                for process in found._started.values():
                    process.send(signal.SIGCONT)
                    process.kill()

    def _start(self) -> None:
        queue, shop = self._server.create_database("queue"), self._server.create_database("shop")
        migrate.upgrade(queue)
        with mqpg.connect(queue) as mq:
            mq.create_topic("bench", queues=_QUEUES)
            mq.create_producer_group("bench")
            mq.subscribe("bench", "bench")
        with psycopg.connect(queue) as connection:
            settle_in(connection)
        for dsn in (queue, shop):
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("create table business (id text primary key, body text)")
                connection.execute("create table ledger (handle text primary key, entry text not null)")
        self._spawn("worker", [sys.executable, "-m", "mqpg", "worker", "--dsn", queue])
        namesrv, broker = free_ports(2)
        self._namesrv = f"127.0.0.1:{namesrv}"
        self._java("namesrv", f"listenPort={namesrv}")
        store = self._folder / "store"
        self._java("broker", _BROKER.format(namesrv=self._namesrv, port=broker, store=store, queues=_QUEUES))
        persist(lambda: socket.create_connection(("127.0.0.1", broker), timeout=1).close(), on=(OSError,))

    def _java(self, name: str, settings: str) -> None:
        config = self._folder / f"{name}.conf"
        config.write_text(settings, encoding="utf-8")
        options = [f"-Xms{_HEAP[name]}", f"-Xmx{_HEAP[name]}", f"-Duser.home={self._folder}"]
        self._spawn(name, ["java", *options, "-cp", self._classes, _MAIN[name], "-c", str(config)])

    def _spawn(self, name: str, command: list[str]) -> None:
        process = self._started[name] = Process(
            name, command, self._folder, environment(ROCKETMQ_HOME=str(self._folder))
        )
        process.start()

    def only(self, side: str) -> None:
        """Let one side run, and stop the processes of the other."""
        for name, process in self._started.items():
            process.send(signal.SIGCONT if (name == "worker") == (side == "mqpg") else signal.SIGSTOP)

    def run(self, side: str, cell: str, clients: int, seconds: float) -> list[float]:
        """Run one cell, and return what the program prints.

        Raises:
            LabError: It failed. The message ends with its last lines.
        """
        self.only(side)
        with psycopg.connect(self._server.dsn(), autocommit=True) as connection:
            connection.execute("checkpoint")
        urls = {f"{name.upper()}_JDBC_URL": _jdbc(self._server.dsn(name)) for name in ("queue", "shop")}
        command = ["java", "-cp", self._classes, "Bench", side, cell, str(clients), str(seconds)]
        env = {**os.environ, **urls, "NAMESRV": self._namesrv}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds + 120, check=False)
        if done.returncode:
            raise LabError(f"{side} {cell}: {done.stderr.strip()[:800]}")
        return [float(word) for word in done.stdout.splitlines()[-1].split()]  # log lines of RocketMQ's come before


def _jdbc(dsn: str) -> str:
    found = conninfo_to_dict(dsn)
    login = urlencode({"user": found["user"], "password": found.get("password", "")})
    return f"jdbc:postgresql://127.0.0.1:{found['port']}/{found['dbname']}?{login}"
