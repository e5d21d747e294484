"""A RabbitMQ server of the run's own: temporary data, free ports on loopback, any user.

Its tests carry the marker `rabbitmq` and run by `make test-rabbitmq`, which gets the server where it may.
Where there is none the run fails: nothing here is ever skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.support.servers import free_ports

__all__ = ["RabbitMQ"]

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 150.0


class RabbitMQ:
    """A running server; `kill()` is SIGKILL, and `start()` finds its data again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, dist, names = free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        (folder / "plugins").write_text("[].")
        variables: dict[str, object] = {
            "HOME": folder,  # Erlang's cookie
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server, and is not its parent
            "ERL_EPMD_PORT": names,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "mqpg@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": self.port,
            "RABBITMQ_DIST_PORT": dist,
            "RABBITMQ_MNESIA_BASE": folder / "data",
            "RABBITMQ_LOG_BASE": folder / "log",
            "RABBITMQ_PID_FILE": folder / "pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins",
            "RABBITMQ_CONFIG_FILE": folder / "none",
            "RABBITMQ_CONF_ENV_FILE": folder / "none",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        self._environment = os.environ | {name: str(value) for name, value in variables.items()}
        self._server: subprocess.Popen[bytes] | None = None
        # The server would start one that outlives it.
        command = [find("epmd"), "-port", str(names), "-address", "127.0.0.1"]
        self._names = subprocess.Popen(command, env=self._environment, stderr=subprocess.DEVNULL)

    def start(self) -> None:
        """Returns when it answers."""
        with (self._folder / "out").open("ab") as out:
            self._server = subprocess.Popen(
                [find("rabbitmq-server")],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        give_up = time.monotonic() + _PATIENCE
        while True:
            try:
                pika.BlockingConnection(pika.URLParameters(self.url)).close()
                return
            except (pika.exceptions.AMQPError, OSError):
                if self._server.poll() is not None or time.monotonic() > give_up:
                    raise AssertionError((self._folder / "out").read_text(errors="replace")[-4000:]) from None
                time.sleep(0.2)

    def has_on_disk(self, queue: str) -> bool:
        """Whether a crash leaves the queue. RabbitMQ confirms a declaration some seconds before it is in a file."""
        for file in (self._folder / "data/mqpg@localhost").glob("*.*"):
            with suppress(FileNotFoundError):  # it was renamed meanwhile
                if queue.encode() in file.read_bytes():
                    return True
        return False

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait(30)
            self._server = None

    def close(self) -> None:
        self.kill()
        self._names.kill()
        self._names.wait(30)


def find(name: str) -> str:
    """A program of the server: from make test-rabbitmq, on PATH, or where distributions put it.

    The rabbitmq-server in /usr/sbin of a distribution asks for a certain user.
    """
    folders = [
        ROOT / ".rabbitmq/usr/lib/rabbitmq/bin",
        "/usr/lib/rabbitmq/bin",
        os.environ.get("PATH", ""),
        "/usr/sbin",
    ]
    if found := shutil.which(name, path=os.pathsep.join(map(str, folders))):
        return found
    pytest.fail(f"{name} is not installed: run make test-rabbitmq, which says how")
