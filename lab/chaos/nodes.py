"""The ten nodes of a run, the proxies before the servers, and what faults work with."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab.processes import Fleet, Process, environment
from lab.proxy import Proxy
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.embedded import EmbeddedServer

from .clock import Clocks
from .cluster import Cluster
from .containers import Container, Server
from .names import BROKERS, CLIENTS, CONSUMERS, PRODUCERS, WORKERS, Layout
from .schedule import Options

__all__ = ["ContainerNode", "Node", "Nodes", "started"]

_MOST_ENDINGS = 30
_WORKER = ["mqpg", "worker", "--wait", "60", "--heartbeat", "1", "--call-timeout", "10", "--stop-on-eof"]
_PROXIED = {"cut", "halfopen", "partition", "slow"}


class Node:
    """A process group, and the PostgreSQL server that stands and falls with it, if there is one.

    Args:
        server: The server on the node, which runs already. None: there is none.
    """

    def __init__(self, name: str, process: Process, server: EmbeddedServer | None = None) -> None:
        self.name, self.process, self.server = name, process, server

    def start(self) -> None:
        """Start the server if necessary, wait for its recovery, and start the process."""
        if self.server is not None:
            self.server.start()
        self.process.start()

    def kill(self) -> None:
        """End the process group, the postmaster and every other process of the server by SIGKILL."""
        self.process.kill()
        processes = self._send_to_server(signal.SIGSTOP)
        for one in reversed(processes):  # the postmaster, which can start no process meanwhile, is last
            with suppress(psutil.NoSuchProcess):
                one.kill()
        until = time.monotonic() + 10
        while any(map(_runs, processes)) and time.monotonic() < until:
            time.sleep(0.01)

    def end(self) -> None:
        """End its program, and leave its server at work."""
        self.process.kill()

    def close(self) -> None:
        """End its program at the end of the rounds."""
        self.process.kill()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process group and to the server."""
        self.process.send(number)
        self._send_to_server(number)

    def _send_to_server(self, number: signal.Signals) -> list[psutil.Process]:
        """Send it to the postmaster first, so that the list of its stopped processes is complete."""
        if self.server is None or self.server.pid is None:
            return []
        postmaster = psutil.Process(self.server.pid)
        postmaster.send_signal(number)
        children = postmaster.children()
        for one in children:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)
        return [postmaster, *children]


class ContainerNode(Node):
    """A container, with the server in it."""

    def __init__(self, name: str, process: Container, server: Server | EmbeddedServer | None) -> None:
        super().__init__(name, process)
        self.container, self._inner = process, server

    def start(self) -> None:
        """Start the container, and wait for the recovery of its server."""
        self.process.start()
        if self._inner is not None:
            self._inner.start()

    def end(self) -> None:
        """End its program, and leave its server at work."""
        self.kill()
        if self._inner is not None:
            (self.process.log.parent / "over").touch()
            self.start()

    def close(self) -> None:
        """End it, unless it has a server, which is still read."""
        if self._inner is None:
            self.kill()


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


@dataclass(frozen=True, slots=True)
class Nodes:
    """What runs.

    Attributes:
        direct: The DSNs of the brokers, by the name of the node.
        proxies: The proxies of each broker, by the node whose server they are before: its own, and
            those that its workers ask. Empty if no fault needs them.
    """

    folder: Path
    layout: Layout
    nodes: Mapping[str, Node]
    fleet: Fleet
    direct: Mapping[str, str]
    proxies: Mapping[str, Mapping[str, Proxy]]
    clocks: Clocks | None


@contextmanager
def started(made: Cluster, options: Options) -> Iterator[Nodes]:
    """Start the ten nodes; they are killed at the end."""
    with ExitStack() as stack:
        proxies = _proxies(made, stack) if _PROXIED & set(options.faults) else {}
        layout = Layout(
            str(made.folder),
            {name: _behind(made.brokers, proxies, name) for name in CLIENTS},
            made.stores,
            made.sinks,
            options.rate / len(PRODUCERS),
            options.seed,
            list(options.protocols),
        )
        clocks = Clocks(made.folder, contained=bool(made.containers)) if "clock" in options.faults else None
        nodes = _contained(made, layout, clocks) if made.containers else _nodes(made, layout, proxies, clocks)
        fleet = Fleet(made.folder, {}, _MOST_ENDINGS)
        for node in nodes.values():
            stack.callback(node.close)
            fleet.include(node.process)
        for node in nodes.values():
            if node.process.pid is None:  # a container with a server runs
                node.start()
        yield Nodes(made.folder, layout, nodes, fleet, dict(zip(BROKERS, made.brokers, strict=True)), proxies, clocks)


def _proxies(made: Cluster, stack: ExitStack) -> dict[str, dict[str, Proxy]]:
    """Start the proxies of each broker: before its server, and before what its workers ask.

    The workers of a broker ask the ledgers of the producers. If a producer cannot reach the broker,
    they cannot reach the producer's ledgers either.
    """
    return {
        broker: {
            name: stack.enter_context(closing(Proxy("127.0.0.1", _embedded(made, name).port or 0, names)))
            for name, names in {broker: CLIENTS, **{name: (name,) for name in CLIENTS[: len(PRODUCERS)]}}.items()
        }
        for broker in BROKERS
    }


def _behind(brokers: list[str], proxies: Mapping[str, Mapping[str, Proxy]], node: str) -> list[str]:
    """The DSNs of the brokers as this node sees them."""
    return [
        to_sqlalchemy(dsn).set(port=before.ports[node]).render_as_string(hide_password=False)
        for dsn, before in zip(brokers, [found[name] for name, found in proxies.items()], strict=False)
    ] or brokers


def _nodes(
    made: Cluster, layout: Layout, proxies: Mapping[str, Mapping[str, Proxy]], clocks: Clocks | None
) -> dict[str, Node]:
    path, env = str(layout.write()), environment()
    modules = {f"producer-{n}": ["lab.chaos.producer", path, str(n)] for n in PRODUCERS}
    modules |= {f"consumer-{n}": ["lab.chaos.consumer", path, str(n)] for n in CONSUMERS}
    found: dict[str, Node] = {}
    for name, module in modules.items():
        clock = clocks.environment(name) if clocks else {}
        command = [sys.executable, "-m", *module]
        found[name] = Node(name, Process(name, command, made.folder, env | clock), _embedded(made, name))
    for name, dsn in zip(BROKERS, made.brokers, strict=True):
        more = {"MQPG_DATABASE_URL": dsn} | _ledgers(made, proxies.get(name, {}))
        more |= clocks.environment(name) if clocks else {}
        command = [sys.executable, "-m", *_WORKER]
        process = Process(name.replace("broker", "worker"), command, made.folder, env | more)
        found[name] = Node(name, process, _embedded(made, name))
    return found


def _embedded(made: Cluster, name: str) -> EmbeddedServer:
    server = made.servers[name]
    assert isinstance(server, EmbeddedServer)
    return server


def _contained(made: Cluster, layout: Layout, clocks: Clocks | None) -> dict[str, Node]:
    """The nodes of the containers. Their programs begin with the layout; two workers serve each broker."""
    path = str(layout.path)
    modules = {f"producer-{n}": ["lab.chaos.producer", path, str(n)] for n in PRODUCERS}
    modules |= {f"consumer-{n}": ["lab.chaos.consumer", path, str(n)] for n in CONSUMERS}
    modules |= dict.fromkeys(WORKERS, _WORKER)
    for number, (name, module) in enumerate(modules.items()):
        more = clocks.environment(name) if clocks else {}
        more["PYTHONPATH"] = "/src/lab/chaos/stepped:/opt/mqpg:/src"
        if name in WORKERS:
            dsn = made.brokers[number % len(made.brokers)]
            more |= {"MQPG_DATABASE_URL": dsn} | _ledgers(made, {})
        made.containers[name].let_run(module, more)
    layout.write()
    return {name: ContainerNode(name, one, made.servers.get(name)) for name, one in made.containers.items()}


def _ledgers(made: Cluster, proxies: Mapping[str, Proxy]) -> dict[str, str]:
    """The ledgers for a worker's environment, because all users can read arguments."""
    found: dict[str, list[str]] = {}
    for name, dsn in made.stores.items():
        part, _, producer = name.rpartition("-")
        if part in ("shop", "recon"):
            url = to_sqlalchemy(dsn)
            if proxies:
                url = url.set(port=proxies[f"producer-{producer}"].ports[f"producer-{producer}"])
            found.setdefault(f"MQPG_LEDGER_{part.upper()}", []).append(url.render_as_string(hide_password=False))
    return {name: " ".join(urls) for name, urls in found.items()}
