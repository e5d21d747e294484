"""The faults: each kind is begun, lasts for a while, and is ended."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, cast

import psycopg

from lab.processes import crash

from .disk import recover, run_full
from .interruption import Interruption, Work, adopt_twice, interrupt
from .names import EVENTS, LEASE
from .nodes import Nodes
from .schedule import Kind, Round, Target

__all__ = ["Faults"]

_OTHERS = "pid <> pg_backend_pid() and backend_type = 'client backend' and datname = 'broker'"
_TERMINATE = f"select pg_terminate_backend(pid) from pg_stat_activity where {_OTHERS}"
_CANCEL = f"select pg_cancel_backend(pid) from pg_stat_activity where {_OTHERS} and state = 'active'"
_DOWN = 1.0  # seconds for which what was killed stays down
_HOLD = 5.0  # seconds of faults that last
_APART = _SLOW = 12.0  # seconds; a call of a client lasts 8, and a lease 3
_STORM = 20  # times
_FULL = 4.0  # seconds
_STEPPED = 10.0  # seconds


class Faults:
    """Carries out rounds.

    Attributes:
        findings: What faults found to be wrong, one line each.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.findings: list[str] = []

    def carry_out(self, one: Round) -> None:
        """Carry out a round; return when the fault is over and everything is started again."""
        on_nodes: dict[Kind, Callable[[], None]] = {
            "kill": lambda: self._kill(one.nodes),
            "stop": lambda: self._stop(one.nodes),
            "clock": lambda: self._step(one.nodes, one.how[0]),
        }
        on_broker: dict[Kind, Callable[[str], None]] = {
            "crash": lambda name: crash(self._nodes.broker(name).server),
            "terminate": lambda name: self._storm(name, _TERMINATE),
            "cancel": lambda name: self._storm(name, _CANCEL),
            "cut": lambda name: self._nodes.proxies[name][0].cut(_HOLD),
            "halfopen": lambda name: self._nodes.proxies[name][0].half_open(),
            "slow": self._slow,
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
        if one.kind in on_nodes:
            on_nodes[one.kind]()
        else:
            for name in one.nodes:
                on_broker[one.kind](name)

    def _kill(self, names: Sequence[str]) -> None:
        nodes = [self._nodes.nodes[name] for name in names]
        for node in nodes:
            node.kill()
        time.sleep(_DOWN)
        # All at the same time, because the recovery of a broker takes a while.
        with ThreadPoolExecutor(len(nodes), "start") as pool:
            for done in [pool.submit(node.start) for node in nodes]:
                done.result()

    def _stop(self, names: Sequence[str]) -> None:
        """Freeze nodes until their leases are over, and let them continue."""
        nodes = [self._nodes.nodes[name] for name in names]
        try:
            for node in nodes:
                node.send(signal.SIGSTOP)
            time.sleep(2 * LEASE)
        finally:
            for node in nodes:
                node.send(signal.SIGCONT)

    def _step(self, names: Sequence[str], seconds: str) -> None:
        """Step the clocks of nodes, of a broker that of its workers, and set them right again.

        Each node is seen to feel both steps.
        """
        assert self._nodes.clocks is not None
        for step in (seconds, "+0"):
            for name in names:
                self._nodes.clocks.step(name, step)
            time.sleep(0 if step == "+0" else _STEPPED)

    def _interrupt(self, work: Work, name: str, how: Sequence[str]) -> None:
        """Kill in the middle of some work; the work is done again to its end."""
        interruption = Interruption(work, cast("Target", how[0]), _DOWN)
        carry_out = adopt_twice if work == "adopt" else interrupt
        broker = self._nodes.broker(name)
        self.findings += carry_out(broker, self._nodes.direct[name], self._nodes.folder, interruption)

    def _disk(self, name: str) -> None:
        """Fill the file system of a broker's data until the server breaks off, and free it."""
        server = self._nodes.broker(name).server
        run_full(server, self._nodes.direct[name], _FULL)
        recover(server)

    def _storm(self, name: str, statement: str) -> None:
        """Terminate or cancel what the clients and the workers do, again and again."""
        with self._connected(name) as conn:
            for _ in range(_STORM):
                conn.execute(statement.encode())
                time.sleep(_HOLD / _STORM)

    def _slow(self, name: str) -> None:
        self._nodes.proxies[name][0].slow(_SLOW)
        time.sleep(_SLOW)

    def _partition(self, name: str, apart: Sequence[str]) -> None:
        """Keep some nodes and a broker apart for longer than clients wait and leases last."""
        for proxy in self._nodes.proxies[name]:
            proxy.part(_APART, apart)
        time.sleep(_APART)

    def _hold(self, name: str) -> None:
        """Hold an old transaction with an xid and a snapshot."""
        with self._connected(name) as conn, conn.transaction(force_rollback=True):
            conn.execute("set transaction isolation level repeatable read")
            conn.execute("insert into public.business values (0, 'none', 'none', null)")
            time.sleep(_HOLD)

    def _exhaust(self, name: str) -> None:
        """Take every connection that is left, throw out half of the others, and keep it so."""
        with ExitStack() as stack:
            admin = stack.enter_context(self._connected(name))
            mine: list[int] = []
            until = None
            while until is None or time.monotonic() < until:
                try:
                    mine.append(stack.enter_context(self._connected(name)).info.backend_pid)
                except psycopg.OperationalError:
                    if until is None:
                        until = time.monotonic() + _HOLD
                        admin.execute(f"{_TERMINATE} and not pid = any(%s) and pid %% 2 = 0".encode(), [mine])
                    time.sleep(0.05)

    def _lock(self, name: str) -> None:
        """Deadlock with the producers: lock the business tables against the order of their work."""
        with self._connected(name) as conn:
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
        with self._connected(name) as conn:
            try:
                conn.execute("alter database broker set statement_timeout = '15ms'")
                conn.execute("alter database broker set lock_timeout = '2ms'")
                conn.execute(_TERMINATE.encode())
                time.sleep(_HOLD)
            finally:
                conn.execute("alter database broker reset statement_timeout")
                conn.execute("alter database broker reset lock_timeout")
                conn.execute(_TERMINATE.encode())

    def _connected(self, name: str) -> psycopg.Connection[Any]:
        """A session of a broker by its own port."""
        dsn = self._nodes.direct[name]
        return psycopg.connect(dsn, autocommit=True, connect_timeout=10, application_name="chaos")
