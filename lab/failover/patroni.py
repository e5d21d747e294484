"""A broker that Patroni manages: two servers and a third vote, all on this machine.

They run from the configuration in `deploy/patroni`, with other addresses. `make test-patroni`
installs Patroni in `.patroni`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml

from mqpg import migrate
from mqpg.embedded import find_binaries
from mqpg.embedded.programs import current_account, readable_for
from tests.support.waiting import eventually

__all__ = ["Managed", "managed"]

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAMS = _ROOT / ".patroni" / "bin"
_DEPLOY = _ROOT / "deploy" / "patroni"
_PASSWORD = "secret"
_PATIENCE = 180.0


class _Process:
    """A program of Patroni with its configuration, as the user of the servers."""

    def __init__(self, program: str, config: dict[str, Any], folder: Path, environment: dict[str, str]) -> None:
        self._account, self._environment = current_account(), environment
        folder.mkdir(mode=0o700)
        self.log = folder / "log"
        file = folder / "patroni.yml"
        file.write_text(yaml.safe_dump(config))
        for path in (folder, file):
            self._account.give(path)
        self._command = [str(_PROGRAMS / "python"), str(_PROGRAMS / program), str(file)]
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self._command, stdout=log, stderr=log, **self._account.options(self._environment)
            )

    def kill(self) -> None:
        """Kill it and all that it has started, except a server."""
        if self._running is not None:
            with suppress(psutil.NoSuchProcess):
                _kill([psutil.Process(self._running.pid)])
            self._running.wait()
            self._running = None


class _Node(_Process):
    """Patroni with its server."""

    def __init__(self, name: str, ports: dict[str, int], folder: Path, **more: Any) -> None:
        self.name, self.port = name, ports["postgresql"]
        self._data, self._api = folder / "pgdata", ports["restapi"]
        binaries = readable_for(current_account(), find_binaries())
        self._stop = [str(binaries / "pg_ctl"), "stop", "-m", "immediate", "-D", str(self._data)]
        environment = more.pop("environment")
        config = yaml.safe_load((_DEPLOY / "patroni.yml").read_text())
        config |= {"name": name, "watchdog": {"mode": "off"}, "raft": _raft(folder, **more.pop("raft"))}
        config["restapi"] = dict.fromkeys(("listen", "connect_address"), f"127.0.0.1:{self._api}")
        config["postgresql"] |= dict.fromkeys(("listen", "connect_address"), f"127.0.0.1:{self.port}")
        config["postgresql"] |= {"data_dir": str(self._data), "bin_dir": str(binaries)} | more
        config["postgresql"]["parameters"] = {"unix_socket_directories": str(folder), "max_connections": 100}
        for login in config["postgresql"]["authentication"].values():
            login["password"] = _PASSWORD
        super().__init__("patroni", config, folder, environment)

    def roles(self) -> dict[str, str]:
        """The roles of all nodes as this one knows them; none where it does not answer."""
        with suppress(OSError, ValueError):
            with urllib.request.urlopen(f"http://127.0.0.1:{self._api}/cluster", timeout=5) as answer:
                members = json.load(answer)["members"]
            return {one["name"]: one["role"] for one in members if one["state"] in ("running", "streaming")}
        return {}

    def is_primary(self) -> bool:
        """Whether the server can write."""
        dsn = f"host=127.0.0.1 port={self.port} user=postgres password={_PASSWORD} connect_timeout=5"
        with suppress(psycopg.OperationalError), psycopg.connect(dsn) as conn:
            return conn.execute("select pg_is_in_recovery()").fetchone() == (False,)
        return False

    def kill_all(self) -> None:
        """Kill Patroni, the postmaster and all its children with SIGKILL."""
        self.kill()
        with suppress(psutil.NoSuchProcess, OSError, ValueError):
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            postmaster = psutil.Process(pid)
            if postmaster.name() == "postgres":
                _kill([postmaster])

    def close(self) -> None:
        """Stop the server so that it frees its shared memory."""
        self.kill()
        subprocess.run(self._stop, check=False, capture_output=True, **current_account().options())


class Managed:
    """The cluster. `fail_over` kills the primary, and Patroni alone promotes the other server.

    Args:
        folder: A folder that the servers' user may enter.
        hook: Whether Patroni calls `adopt.sh` when a role changes.
    """

    def __init__(self, folder: Path, *, hook: bool) -> None:
        ports = _free_ports(7)
        self._ports, votes = ports[:2], [f"127.0.0.1:{port}" for port in ports[4:]]
        environment = {
            "PATH": f"{_PROGRAMS}:{os.environ['PATH']}",
            "MQPG_DATABASE_URL": self.dsn(),
            "HOME": str(folder),
        }
        more: dict[str, Any] = {"callbacks": {"on_role_change": str(_DEPLOY / "adopt.sh")}} if hook else {}
        self._nodes = [
            _Node(
                name,
                {"postgresql": ports[i], "restapi": ports[2 + i]},
                folder / name,
                raft={"own": votes[i], "all_": votes},
                environment=environment,
                **more,
            )
            for i, name in enumerate(("db1", "db2"))
        ]
        voter = yaml.safe_load((_DEPLOY / "voter.yml").read_text())
        voter["raft"] = _raft(folder / "db3", votes[2], votes)
        self._voter = _Process("patroni_raft_controller", voter, folder / "db3", environment)
        self._killed: _Node | None = None

    def start(self) -> None:
        """Start everything, and wait for a primary whose commits wait for the standby."""
        for one in (self._voter, *self._nodes):
            one.start()
        self._wait_until_in_pairs()

    def dsn(self, database: str = "broker") -> str:
        """The DSN of both hosts."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return f"postgresql://postgres:{_PASSWORD}@{hosts}/{database}"

    def fail_over(self) -> None:
        """Kill the primary, and wait until Patroni has promoted the other server."""
        self._killed = next(node for node in self._nodes if node.is_primary())
        (other,) = (node for node in self._nodes if node is not self._killed)
        self._killed.kill_all()
        eventually(other.is_primary, _PATIENCE, 0.1, self._logs)

    def rebuild(self) -> None:
        """Let the killed node come back, as Patroni likes."""
        assert self._killed is not None
        self._killed.start()
        self._wait_until_in_pairs()

    def close(self) -> None:
        """Stop everything."""
        self._voter.kill()
        for node in self._nodes:
            node.close()

    def _wait_until_in_pairs(self) -> None:
        both = ["leader", "sync_standby"]
        eventually(lambda: sorted(self._roles().values()) == both, _PATIENCE, 0.2, self._logs)

    def _roles(self) -> dict[str, str]:
        return next(filter(None, (node.roles() for node in self._nodes)), {})

    def _logs(self) -> str:
        logs = [one.log for one in (*self._nodes, self._voter) if one.log.exists()]
        return "\n".join(f"{log}\n" + "\n".join(log.read_text().splitlines()[-15:]) for log in logs)


@contextmanager
def managed(*, hook: bool = False) -> Iterator[Managed]:
    """Make the cluster, with the schema in the database `broker`, until the block ends."""
    assert (_PROGRAMS / "patroni").exists(), "make test-patroni installs Patroni"
    folder = Path(tempfile.mkdtemp(prefix="mqpg-patroni-"))
    current_account().give(folder)
    folder.chmod(0o755)
    cluster = Managed(folder, hook=hook)
    try:
        cluster.start()
        with psycopg.connect(cluster.dsn("postgres"), autocommit=True, target_session_attrs="read-write") as conn:
            conn.execute("create database broker")
        migrate.upgrade(cluster.dsn())
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


def _raft(folder: Path, own: str, all_: list[str]) -> dict[str, Any]:
    return {"data_dir": str(folder), "self_addr": own, "partner_addrs": [one for one in all_ if one != own]}


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        children = process.children(recursive=True)
        for one in (process, *children):
            with suppress(psutil.NoSuchProcess):
                one.kill()


def _free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
