"""A PgBouncer of the test's own in transaction mode, in front of the run's server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from mqpg.embedded.account import current_account

PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


@dataclass(frozen=True)
class Pooler:
    """A running PgBouncer."""

    port: int
    dbname: str
    password: str

    def dsn(self, user: str = "postgres", **more: str) -> str:
        """Conninfo of the test's database through the pooler."""
        found = {"host": "127.0.0.1", "port": str(self.port), "dbname": self.dbname, "user": user} | more
        return " ".join(f"{name}={value}" for name, value in found.items())


@pytest.fixture
def start_pooler(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Pooler]]:
    """Start PgBouncer: `start_pooler()`; settings by name, `users` with their passwords."""
    assert PROGRAM is not None, "make test-pgbouncer installs PgBouncer"
    started: list[subprocess.Popen[bytes]] = []
    server = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}

    def start(users: dict[str, str] | None = None, **settings: object) -> Pooler:
        account = current_account()
        folder = tmp_path_factory.mktemp("pgbouncer")
        for path in (folder, folder.parent, folder.parent.parent):
            path.chmod(0o755)
        logins = {server["user"]: server["password"]} | (users or {})
        lines = [f'"{name}" "{password}"\n' for name, password in logins.items()]
        (folder / "users.txt").write_text("".join(lines))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        wanted = {
            "listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "trust",
            "auth_file": folder / "users.txt", "pool_mode": "transaction", "default_pool_size": 2,
        } | settings  # fmt: skip
        text = f"[databases]\n{server['dbname']} = host={server['host']} port={server['port']}\n[pgbouncer]\n"
        (folder / "ini").write_text(text + "".join(f"{name} = {value}\n" for name, value in wanted.items()))
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen([PROGRAM, str(folder / "ini")], stderr=log, stdout=log, **account.options())
        started.append(process)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return Pooler(port, server["dbname"], server["password"])

    yield start
    for process in started:
        process.terminate()
        process.wait(30)


@pytest.fixture
def pooler(start_pooler: Callable[..., Pooler]) -> Pooler:
    """PgBouncer in transaction mode with two connections to the server."""
    return start_pooler()
