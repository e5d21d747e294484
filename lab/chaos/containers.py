"""Nodes that are containers: each has an address of its own, a PostgreSQL server, and its program.

`tools/containers.sh` gets the engine and the image of workers. Faults of the network are made in the
namespace of the container, with the programs of this machine, so a node has no rights for them.
"""

from __future__ import annotations

import json
import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql

from lab.processes import LabError, Process, environment, persist
from mqpg.errors import ConfigurationError

__all__ = ["Container", "Engine", "Server", "engine"]

_IMAGE = "mqpg-chaos"
_HERE = Path(__file__).parent
_LABEL = "mqpg.chaos"
_SHARES = 8 * 1024  # of the processors: as many as its processes would have outside
_NEEDED = "--nodes containers needs a Docker engine: make containers ARGS='make chaos ARGS=\"--nodes containers\"' ({})"
Way = Literal["in", "out"]


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigurationError(_NEEDED.format(error.strerror)) from error
    if done.returncode != 0:
        raise LabError(f"{' '.join(command[:3])}: {' '.join(done.stderr.split())[-400:]}")
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Server:
    """The server in a container, with what the run asks of any server.

    `directory` is the folder of its data on this machine.
    """

    directory: Path
    address: str
    password: str
    pid: None = None  # no process of this machine's

    def start(self) -> None:
        """Wait until it accepts connections."""
        persist(lambda: psycopg.connect(self.dsn(), connect_timeout=5).close())

    def dsn(self, dbname: str = "postgres") -> str:
        """Build the URL of a database, as superuser."""
        return f"postgresql://postgres:{self.password}@{self.address}:5432/{dbname}"

    def create_database(self, name: str) -> str:
        """Create a database, and return its DSN."""
        with psycopg.connect(self.dsn(), autocommit=True) as conn:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.dsn(name)


class Container(Process):
    """A container in place of a process group. It stands and falls with the standard input that this process holds."""

    def __init__(self, name: str, made: Engine, address: str, folder: Path) -> None:
        self.container = f"{made.run}-{name}"
        super().__init__(name, ["docker", "start", "--attach", "--interactive", self.container], folder, environment())
        self.address, self._network = address, made.run

    def kill(self) -> int | None:
        """End all processes of the container by SIGKILL."""
        self.send(signal.SIGKILL)
        return self.reap()

    def send(self, number: signal.Signals) -> None:
        """Send a signal. SIGSTOP and SIGCONT freeze and thaw all of its processes."""
        frozen = {signal.SIGSTOP: ["pause"], signal.SIGCONT: ["unpause"]}
        with suppress(LabError):  # it has ended
            _run("docker", *frozen.get(number, ["kill", "--signal", number.name]), self.container)

    def let_run(self, module: Sequence[str], variables: Mapping[str, str]) -> None:
        """Say what it runs when the run has begun: a module of Python with its arguments."""
        given = [f"{name}={value}" for name, value in variables.items()]
        words = ["env", "PYTHONUNBUFFERED=1", *given, "python", "-m", *module]
        script = self.log.with_name(f"{self.name}.sh")
        script.touch(mode=0o600)
        script.write_text(f"exec {shlex.join(words)}\n")

    def detached(self, seconds: float) -> None:
        """Take it from the network, and put it back with its address."""
        _run("docker", "network", "disconnect", self._network, self.container)
        try:
            time.sleep(seconds)
        finally:
            _run("docker", "network", "connect", "--ip", self.address, self._network, self.container)

    def one_way(self, way: Way, seconds: float) -> None:
        """Let nothing in, or nothing out."""
        interface = self._interface()
        rule = ("INPUT", "-i", interface, "-j", "DROP") if way == "in" else ("OUTPUT", "-o", interface, "-j", "DROP")
        self._inside("iptables", "-A", *rule)
        try:
            time.sleep(seconds)
        finally:
            self._inside("iptables", "-D", *rule)

    def link_down(self, seconds: float) -> None:
        """Take its interface down, as when a cable is pulled: nothing says good-bye."""
        interface = self._interface()
        self._inside("ip", "link", "set", interface, "down")
        try:
            time.sleep(seconds)
        finally:
            self._inside("ip", "link", "set", interface, "up")

    def _interface(self) -> str:
        """The name of its interface, another one each time it is put back into the network."""
        return self._inside("ip", "-oneline", "address", "show", "to", self.address).split()[1]

    def _inside(self, *command: str) -> str:
        pid = _run("docker", "inspect", "--format", "{{.State.Pid}}", self.container)
        return _run("nsenter", "--target", pid, "--net", *command)


class Engine:
    """The containers of a run, and their network. All carry the run's label.

    Attributes:
        run: The name of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.run, self._folder = f"mqpg-chaos-{secrets.token_hex(4)}", folder
        self.password = secrets.token_urlsafe(24)
        (folder / "password").write_text(self.password)
        self._addresses: Iterator[str] = iter(())

    def create(
        self, name: str, data: Path | None, settings: Mapping[str, str | int]
    ) -> tuple[Container, Server | None]:
        """Create a container, which does not run yet, with a server if it has a folder for data."""
        made = Container(name, self, next(self._addresses), self._folder)
        given = {"listen_addresses": "*", "unix_socket_directories": ""} | dict(settings)
        (self._folder / f"{name}.conf").write_text("".join(f"{key} = '{value}'\n" for key, value in given.items()))
        words = ["--name", made.container, "--hostname", name, "--label", f"{_LABEL}={self.run}", "--interactive"]
        words += [
            "--cpu-shares",
            str(_SHARES),
            "--network",
            self.run,
            "--ip",
            made.address,
            "--env",
            f"MQPG_RUN={self._folder}",
        ]
        words += ["--volume", f"{self._folder}:{self._folder}", "--volume", f"{_HERE.parents[1]}:/src:ro"]
        if data is not None:
            data.mkdir(exist_ok=True)
            words += ["--volume", f"{data}:/data"]
        _run("docker", "create", *words, _IMAGE)
        return made, None if data is None else Server(data, made.address, self.password)

    def open(self) -> None:
        """Make the image and the network."""
        _run("docker", "build", "--tag", _IMAGE, str(_HERE / "container"))
        _run("docker", "network", "create", "--label", f"{_LABEL}={self.run}", self.run)
        found = json.loads(_run("docker", "network", "inspect", "--format", "{{json .IPAM.Config}}", self.run))
        prefix = found[0]["Subnet"].rsplit(".", 1)[0]
        _run("docker", "network", "rm", self.run)
        # A fixed address needs a subnet that was asked for.
        label = f"{_LABEL}={self.run}"
        _run("docker", "network", "create", "--label", label, "--subnet", found[0]["Subnet"], self.run)
        self._addresses = iter([f"{prefix}.{number}" for number in range(10, 60)])

    def close(self) -> None:
        """Remove what carries the label."""
        chosen = ["--filter", f"label={_LABEL}={self.run}", "--quiet"]
        for one in _run("docker", "ps", "--all", *chosen).split():
            _run("docker", "rm", "--force", "--volumes", one)
        for one in _run("docker", "network", "ls", *chosen).split():
            _run("docker", "network", "rm", one)


@contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """Begin a run with containers; all of them are removed at the end."""
    made = Engine(folder)
    try:
        made.open()
        yield made
    finally:
        made.close()
