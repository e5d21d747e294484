"""The faults: each kind is begun, lasts for a while, and is ended."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg

from .clock import Clocks
from .disk import recover, run_full
from .moments import Interruption, Work, interrupt
from .names import EVENTS, LEASE
from .nodes import BrokerNode, Node
from .promotion import adopt_twice
from .proxy import ProxyProcess
from .schedule import Kind, Round, Target

__all__ = ["Means", "Strikes"]

_OTHERS = "pid <> pg_backend_pid() and backend_type = 'client backend' and datname = 'broker'"
_HOLD = 5.0  # seconds of faults that last
_APART = _SLOW = 12.0  # seconds; a call of a client lasts 8, and a lease 3
_STORM = 20  # times
_FULL = 4.0  # seconds
_STEPPED = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Means:
    """What strikes work with.

    Attributes:
        folder: The folder of the logs.
        direct: The DSNs of the brokers, by the name of the node.
        proxies: The proxies of the brokers, by the name of the node: that before its server, and
            that before what its workers ask. Empty without any.
        clocks: The clocks of the nodes. None: they cannot be stepped.
        down: Seconds for which what was killed stays down.
    """

    folder: Path
    direct: Mapping[str, str]
    proxies: Mapping[str, tuple[ProxyProcess, ProxyProcess]]
    clocks: Clocks | None
    down: float


class Strikes:
    """Carries out rounds.

    Attributes:
        findings: What strikes found to be wrong, one line each.

    Args:
        nodes: The nodes by name.
        means: What else it works with.
    """

    def __init__(self, nodes: Mapping[str, Node], means: Means) -> None:
        self._nodes, self._means = nodes, means
        self._direct, self._proxies, self._down = means.direct, means.proxies, means.down
        self.findings: list[str] = []

    def carry_out(self, one: Round) -> None:
        """Carry out a round; return when the fault is over and everything is started again."""
        kinds: dict[Kind, Callable[[str], None]] = {
            "crash": self._crash,
            "terminate": lambda name: self._storm(name, "pg_terminate_backend"),
            "cancel": lambda name: self._storm(name, "pg_cancel_backend"),
            "cut": lambda name: self._proxies[name][0].run("cut", _HOLD),
            "halfopen": lambda name: self._proxies[name][0].run("half", 0.0),
            "slow": lambda name: self._proxies[name][0].run("slow", _SLOW),
            "hold": self._hold,
            "exhaust": self._exhaust,
            "lock": self._lock,
            "timeout": self._timeout,
            "partition": lambda name: self._partition(name, one.how),
            "keep": lambda name: self._interrupt("keep", name, one.how),
            "upgrade": lambda name: self._interrupt("upgrade", name, one.how),
            "audit": lambda name: self._interrupt("audit", name, one.how),
            "adopt": lambda name: self._interrupt("adopt", name, one.how),
            "disk": self._disk,
        }
        if one.kind == "kill":
            self._kill([self._nodes[name] for name in one.nodes])
        elif one.kind == "stop":
            self._stop([self._nodes[name] for name in one.nodes])
        elif one.kind == "clock":
            self._step(one.nodes, one.how[0])
        else:
            for name in one.nodes:
                kinds[one.kind](name)

    def _kill(self, nodes: list[Node]) -> None:
        for node in nodes:
            node.kill()
        time.sleep(self._down)
        _all(nodes, lambda node: node.start())

    def _stop(self, nodes: list[Node]) -> None:
        """Freeze nodes until their leases are over, and let them continue."""
        for node in nodes:
            node.pause()
        try:
            time.sleep(2 * LEASE)
        finally:
            for node in nodes:
                node.resume()

    def _step(self, names: Sequence[str], seconds: str) -> None:
        """Step the clocks of nodes, of a broker that of its workers, and set them right again.

        Each node is seen to feel both steps.
        """
        assert self._means.clocks is not None
        for step in (seconds, "+0"):
            for name in names:
                self._means.clocks.step(name, step)
            time.sleep(0 if step == "+0" else _STEPPED)

    def _broker(self, name: str) -> BrokerNode:
        node = self._nodes[name]
        assert isinstance(node, BrokerNode)
        return node

    def _crash(self, name: str) -> None:
        server = self._broker(name).server
        server.stop("immediate")
        server.start()

    def _interrupt(self, work: Work, name: str, how: Sequence[str]) -> None:
        """Kill in the middle of some work; the work is done again to its end."""
        target = cast("Target", how[0])
        interruption = Interruption(work, target, self._down)
        carry_out = adopt_twice if work == "adopt" else interrupt
        self.findings += carry_out(self._broker(name), self._direct[name], self._means.folder, interruption)

    def _disk(self, name: str) -> None:
        """Fill the file system of a broker's data until the server breaks off, and free it."""
        server = self._broker(name).server
        run_full(server, self._direct[name], _FULL)
        recover(server)

    def _storm(self, name: str, function: str) -> None:
        """Terminate or cancel what the clients and the workers do, again and again."""
        with _connected(self._direct[name]) as conn:
            for _ in range(_STORM):
                query = f"select {function}(pid) from pg_stat_activity where {_OTHERS}"
                if function == "pg_cancel_backend":
                    query += " and state = 'active'"
                conn.execute(query.encode())
                time.sleep(_HOLD / _STORM)

    def _partition(self, name: str, apart: Sequence[str]) -> None:
        """Keep some nodes and a broker apart for longer than clients wait and leases last."""
        for proxy in self._proxies[name]:
            proxy.tell("part", _APART, apart)
        time.sleep(_APART)

    def _hold(self, name: str) -> None:
        """Hold an old transaction with an xid and a snapshot."""
        with _connected(self._direct[name]) as conn, conn.transaction(force_rollback=True):
            conn.execute("set transaction isolation level repeatable read")
            conn.execute("insert into public.business values (0, 'none', 'none', null)")
            time.sleep(_HOLD)

    def _exhaust(self, name: str) -> None:
        """Take every connection that is left, throw out half of the others, and keep it so."""
        with ExitStack() as stack:
            admin = stack.enter_context(_connected(self._direct[name]))
            mine: list[int] = []
            until = None
            while until is None or time.monotonic() < until:
                try:
                    mine.append(stack.enter_context(_connected(self._direct[name])).info.backend_pid)
                except psycopg.OperationalError:
                    if until is None:
                        until = time.monotonic() + _HOLD
                        query = f"select pg_terminate_backend(pid) from pg_stat_activity where {_OTHERS}"
                        admin.execute(f"{query} and not pid = any(%s) and pid %% 2 = 0".encode(), [mine])
                    time.sleep(0.05)

    def _lock(self, name: str) -> None:
        """Deadlock with the producers: lock the business tables against the order of their work."""
        with _connected(self._direct[name]) as conn:
            until = time.monotonic() + _HOLD
            while time.monotonic() < until:
                with suppress(psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled), conn.transaction():
                    conn.execute("set local deadlock_timeout = '100ms'")
                    conn.execute("set local statement_timeout = '1s'")
                    conn.execute("lock table public.effect in share row exclusive mode")
                    conn.execute(
                        "select count(*) from mqpg.receive('c1', %s, max_messages => 1)", [random.choice(EVENTS)]
                    )
                    conn.execute("lock table public.business in share row exclusive mode")
                    raise psycopg.Rollback
                time.sleep(0.05)

    def _timeout(self, name: str) -> None:
        """Let statements and locks of all sessions time out soon, by beginning new sessions."""
        with _connected(self._direct[name]) as conn:
            try:
                conn.execute("alter database broker set statement_timeout = '15ms'")
                conn.execute("alter database broker set lock_timeout = '2ms'")
                conn.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {_OTHERS}".encode())
                time.sleep(_HOLD)
            finally:
                conn.execute("alter database broker reset statement_timeout")
                conn.execute("alter database broker reset lock_timeout")
                conn.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {_OTHERS}".encode())


def _connected(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, connect_timeout=10, application_name="chaos")


def _all(nodes: list[Node], work: Callable[[Node], None]) -> None:
    """Do it with all nodes at the same time, because the recovery of a broker takes a while."""
    if len(nodes) == 1:
        work(nodes[0])
        return
    with ThreadPoolExecutor(len(nodes), "start") as pool:
        for done in [pool.submit(work, node) for node in nodes]:
            done.result()
