"""The ten nodes of a run, the proxies before the servers, and what strikes work with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

from mqpg.connection.dsn import to_sqlalchemy
from mqpg.errors import Error

from .clock import Clocks
from .cluster import Cluster
from .motion import Motion
from .names import Layout
from .nodes import BrokerNode, Node, ProcessNode
from .options import Options
from .proxy import ProxyProcess
from .schedule import BROKERS, CONSUMERS, NODES, PRODUCERS
from .strikes import Means, Strikes

__all__ = ["ChaosError", "Stage", "make_stage"]

_MOST_ENDINGS = 30
_PROXIED = {"cut", "halfopen", "partition", "slow"}
_OUTER = NODES[: -len(BROKERS)]  # the nodes that are no brokers


class ChaosError(Error):
    """The run cannot continue. The message says why in one line."""


@dataclass(slots=True)
class Stage:
    """What runs."""

    cluster: Cluster
    nodes: Mapping[str, Node]
    strikes: Strikes
    motion: Motion
    layout: Layout
    endings: list[str] = field(default_factory=list)

    def tend(self) -> None:
        """Start nodes that ended by themselves, which none should."""
        for node in self.nodes.values():
            status = node.ended()
            if status is not None:
                process = node.worker if isinstance(node, BrokerNode) else node
                assert isinstance(process, ProcessNode)
                self.endings.append(f"{node.name} ended with status {status}: {process.tail}")
                if len(self.endings) > _MOST_ENDINGS:
                    raise ChaosError(f"nodes keep ending by themselves: {self.endings[-1]}")
                process.kill()
                process.start()


@contextmanager
def make_stage(made: Cluster, options: Options) -> Iterator[Stage]:
    """Start the ten nodes; they are killed at the end.

    Args:
        made: The servers and databases.
        options: What to do.

    Yields:
        What runs.
    """
    with ExitStack() as stack:
        proxies = _proxies(made, stack) if _PROXIED & set(options.faults) else {}
        layout = Layout(
            str(made.folder),
            {name: _behind(made.brokers, proxies, name) for name in _OUTER},
            made.brokers,
            made.stores,
            made.sinks,
            options.rate / len(PRODUCERS),
            options.seed,
            list(options.protocols),
        )
        clocks = Clocks(made.folder) if "clock" in options.faults else None
        nodes = _nodes(made, layout, proxies, clocks)
        motion = stack.enter_context(closing(Motion(made.brokers)))
        direct = dict(zip(proxies or _brokers(), made.brokers, strict=True))
        strikes = Strikes(nodes, Means(made.folder, direct, proxies, clocks, options.down))
        for node in nodes.values():
            stack.callback((node.worker if isinstance(node, BrokerNode) else node).kill)
        for node in nodes.values():
            node.start()
        yield Stage(made, nodes, strikes, motion, layout)


def _brokers() -> tuple[str, ...]:
    return NODES[-len(BROKERS) :]


def _proxies(made: Cluster, stack: ExitStack) -> dict[str, tuple[ProxyProcess, ProxyProcess]]:
    """Start the proxies of each broker: before its server, and before what its workers ask.

    The workers of a broker ask the ledgers of the producers. Where a producer cannot reach the
    broker, they cannot reach the producer's ledgers either.
    """
    found = {}
    for name, server in zip(_brokers(), made.servers, strict=True):
        ports = ((server.port or 0, _OUTER), (made.side.port or 0, _OUTER[: len(PRODUCERS)]))
        before, behind = (stack.enter_context(closing(ProxyProcess(port, names))) for port, names in ports)
        found[name] = (before, behind)
    return found


def _behind(brokers: list[str], proxies: Mapping[str, tuple[ProxyProcess, ProxyProcess]], node: str) -> list[str]:
    """Return the DSNs of the brokers as this node sees them."""
    return [
        to_sqlalchemy(dsn).set(port=before.ports[node]).render_as_string(hide_password=False)
        for dsn, (before, _) in zip(brokers, proxies.values(), strict=False)
    ] or brokers


def _nodes(
    made: Cluster,
    layout: Layout,
    proxies: Mapping[str, tuple[ProxyProcess, ProxyProcess]],
    clocks: Clocks | None,
) -> dict[str, Node]:
    path = str(layout.write())
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    found: dict[str, Node] = {}
    for role, numbers in (("producer", PRODUCERS), ("consumer", CONSUMERS)):
        for number in numbers:
            name = f"{role}-{number}"
            clock = clocks.environment(name) if clocks else {}
            found[name] = ProcessNode(name, [f"lab.chaos.{role}", path, str(number)], made.folder, env | clock)
    for number, (name, server, dsn) in enumerate(zip(_brokers(), made.servers, made.brokers, strict=True), 1):
        argv = ["mqpg", "worker", "--wait", "60", "--heartbeat", "1", "--call-timeout", "10", "--stop-on-eof"]
        ledgers = _ledgers(made, proxies[name][1] if proxies else None)
        more = {"MQPG_DATABASE_URL": dsn} | ledgers | (clocks.environment(name) if clocks else {})
        worker = ProcessNode(f"worker-{number}", argv, made.folder, env | more)
        found[name] = BrokerNode(name, server, worker)
    return found


def _ledgers(made: Cluster, proxy: ProxyProcess | None) -> dict[str, str]:
    """Return the ledgers for a worker's environment, because all users can read arguments."""
    found = {}
    for name, url in made.ledgers().items():
        seen = to_sqlalchemy(url)
        if proxy is not None:
            seen = seen.set(port=proxy.ports[f"producer-{name.rpartition('-')[2]}"])
        found[f"MQPG_LEDGER_{name.upper().replace('-', '_')}"] = seen.render_as_string(hide_password=False)
    return found
