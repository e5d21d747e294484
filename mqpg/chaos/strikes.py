"""The faults: each kind is begun, lasts for a while, and is ended."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import psycopg

from .names import EVENTS, LEASE
from .nodes import BrokerNode, Node
from .proxy import ProxyProcess
from .schedule import Kind, Round

__all__ = ["Strikes"]

_OTHERS = "pid <> pg_backend_pid() and backend_type = 'client backend' and datname = 'broker'"
_HOLD = 5.0  # seconds of faults that last
_STORM = 20  # times


class Strikes:
    """Carries out rounds.

    Args:
        nodes: The nodes by name.
        direct: The DSNs of the brokers, by the name of the node.
        proxies: The proxies in front of the brokers, by the name of the node; empty without any.
        down: Seconds for which what was killed stays down.
    """

    def __init__(
        self, nodes: Mapping[str, Node], direct: Mapping[str, str], proxies: Mapping[str, ProxyProcess], down: float
    ) -> None:
        self._nodes, self._direct, self._proxies, self._down = nodes, direct, proxies, down

    def carry_out(self, one: Round) -> None:
        """Carry out a round; return when the fault is over and everything is started again."""
        kinds: dict[Kind, Callable[[str], None]] = {
            "crash": self._crash,
            "terminate": lambda name: self._storm(name, "pg_terminate_backend"),
            "cancel": lambda name: self._storm(name, "pg_cancel_backend"),
            "cut": lambda name: self._proxies[name].run("cut", _HOLD),
            "halfopen": lambda name: self._proxies[name].run("half", 0.0),
            "hold": self._hold,
            "exhaust": self._exhaust,
            "lock": self._lock,
            "timeout": self._timeout,
        }
        if one.kind == "kill":
            self._kill([self._nodes[name] for name in one.nodes])
        elif one.kind == "stop":
            self._stop([self._nodes[name] for name in one.nodes])
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

    def _crash(self, name: str) -> None:
        node = self._nodes[name]
        assert isinstance(node, BrokerNode)
        node.server.restart("immediate")

    def _storm(self, name: str, function: str) -> None:
        """Terminate or cancel what the clients and the workers do, again and again."""
        with _connected(self._direct[name]) as conn:
            for _ in range(_STORM):
                query = f"select {function}(pid) from pg_stat_activity where {_OTHERS}"
                if function == "pg_cancel_backend":
                    query += " and state = 'active'"
                conn.execute(query.encode())
                time.sleep(_HOLD / _STORM)

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
