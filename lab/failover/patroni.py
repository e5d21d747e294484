"""A broker that Patroni manages: two servers and a third vote, all on this machine.

They run from the configuration in `deploy/patroni`, with other addresses. `make test-patroni`
installs Patroni in `.patroni`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import yaml

from lab import ROOT
from mqpg import migrate
from mqpg.embedded import find_binaries
from mqpg.embedded.programs import current_account, readable_for
from tests.support.servers import free_ports
from tests.support.waiting import eventually

__all__ = ["Managed", "managed"]

_PROGRAMS = ROOT / ".patroni" / "bin"
_DEPLOY = ROOT / "deploy" / "patroni"
_PASSWORD = "secret"
_PATIENCE = 180.0
_LOCAL = "127.0.0.1:{}"
_ROLE = """
select not pg_is_in_recovery(), exists (select from pg_stat_replication where sync_state = 'sync')
"""


class _Program:
    """A program of Patroni with its configuration, as the user of the servers."""

    def __init__(self, program: str, config: dict[str, Any], folder: Path, env: dict[str, str]) -> None:
        self._account, self._env, self.log = current_account(), env, folder / "log"
        folder.mkdir(mode=0o700)
        file = folder / "patroni.yml"
        file.write_text(yaml.safe_dump(config))
        for path in (folder, file):
            self._account.give(path)
        self._command = [str(_PROGRAMS / "python"), str(_PROGRAMS / program), str(file)]
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            options = self._account.options(self._env)
            self._running = subprocess.Popen(self._command, stdout=log, stderr=log, **options)

    def kill(self) -> None:
        """Kill it and all that it has started, except a server."""
        if self._running is not None:
            _kill(self._running.pid)
            self._running.wait()
            self._running = None


class _Node(_Program):
    """Patroni with its server."""

    def __init__(self, name: str, ports: tuple[int, int], folder: Path, raft: dict[str, Any], **more: Any) -> None:
        self.port, self._data = ports[0], folder / "pgdata"
        binaries = readable_for(current_account(), find_binaries())
        self._stop = [str(binaries / "pg_ctl"), "stop", "-m", "immediate", "-D", str(self._data)]
        config = yaml.safe_load((_DEPLOY / "patroni.yml").read_text())
        config |= {"name": name, "watchdog": {"mode": "off"}, "raft": raft}
        for section, port in zip(("postgresql", "restapi"), ports, strict=True):
            config[section] |= dict.fromkeys(("listen", "connect_address"), _LOCAL.format(port))
        config["postgresql"] |= {"data_dir": str(self._data), "bin_dir": str(binaries), "callbacks": more["callbacks"]}
        config["postgresql"]["parameters"] = {"unix_socket_directories": str(folder), "max_connections": 100}
        for login in config["postgresql"]["authentication"].values():
            login["password"] = _PASSWORD
        super().__init__("patroni", config, folder, more["env"])

    def role(self) -> tuple[bool, bool]:
        """Whether the server can write, and whether its commits wait for a standby."""
        dsn = f"host=127.0.0.1 port={self.port} user=postgres password={_PASSWORD} connect_timeout=5"
        with suppress(psycopg.OperationalError), psycopg.connect(dsn) as conn:
            return conn.execute(_ROLE).fetchone() or (False, False)
        return False, False

    def kill_all(self) -> None:
        """Kill Patroni, the postmaster and all its children with SIGKILL."""
        self.kill()
        with suppress(OSError, ValueError):
            _kill(int((self._data / "postmaster.pid").read_text().split()[0]), only="postgres")

    def close(self) -> None:
        """Stop the server so that it frees its shared memory."""
        self.kill()
        subprocess.run(self._stop, check=False, capture_output=True, **current_account().options())


class Managed:
    """The cluster. `fail_over` kills the primary, and Patroni alone promotes the other server."""

    def __init__(self, folder: Path, *, hook: bool) -> None:
        ports = free_ports(7)
        self._ports = ports[:2]
        env = {"PATH": f"{_PROGRAMS}:{os.environ['PATH']}", "MQPG_DATABASE_URL": self.dsn(), "HOME": str(folder)}
        callbacks = {"on_role_change": str(_DEPLOY / "adopt.sh")} if hook else {}
        votes = [_LOCAL.format(port) for port in ports[4:]]
        rafts = [
            {"data_dir": str(folder / name), "self_addr": own, "partner_addrs": [one for one in votes if one != own]}
            for name, own in zip(("db1", "db2", "db3"), votes, strict=True)
        ]
        self._nodes = [
            _Node(name, (ports[i], ports[2 + i]), folder / name, rafts[i], callbacks=callbacks, env=env)
            for i, name in enumerate(("db1", "db2"))
        ]
        voter = yaml.safe_load((_DEPLOY / "voter.yml").read_text()) | {"raft": rafts[2]}
        self._voter = _Program("patroni_raft_controller", voter, folder / "db3", env)
        self._killed: _Node | None = None

    def start(self) -> None:
        """Start everything, and wait for a primary whose commits wait for the standby."""
        for one in (self._voter, *self._nodes):
            one.start()
        self._wait_until_in_pairs()

    def dsn(self, database: str = "broker") -> str:
        """The DSN of both hosts."""
        hosts = ",".join(map(_LOCAL.format, self._ports))
        return f"postgresql://postgres:{_PASSWORD}@{hosts}/{database}"

    def fail_over(self) -> None:
        """Kill the primary, and wait until Patroni has promoted the other server."""
        self._killed = next(node for node in self._nodes if node.role()[0])
        (other,) = (node for node in self._nodes if node is not self._killed)
        self._killed.kill_all()
        eventually(lambda: other.role()[0], _PATIENCE, 0.1, self._logs)

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
        eventually(lambda: any(node.role() == (True, True) for node in self._nodes), _PATIENCE, 0.2, self._logs)

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


def _kill(pid: int, only: str = "") -> None:
    """Kill a process and all that it has started, if it has this name."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)) if process.name().startswith(only) else ():
            with suppress(psutil.NoSuchProcess):
                one.kill()
