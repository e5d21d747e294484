"""The faults: each kind is begun, lasts for a while, and is ended. The method `_kind` carries it out."""

from __future__ import annotations

import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, cast

import psycopg

from lab.proxy import Proxy
from mqpg.embedded import EmbeddedServer
from tests.support.servers import restart

from .containers import Container, Way
from .disk import recover, run_full
from .interruption import Interruption, Work, adopt_twice, interrupt
from .names import EVENTS, LEASE
from .nodes import ContainerNode, Node, Nodes
from .schedule import Round, Target

__all__ = ["Faults"]

_OTHERS = "pid <> pg_backend_pid() and backend_type = 'client backend' and datname = 'broker'"
_TERMINATE = f"select pg_terminate_backend(pid) from pg_stat_activity where {_OTHERS}"
_CANCEL = f"select pg_cancel_backend(pid) from pg_stat_activity where {_OTHERS} and state = 'active'"
_DOWN = 1.0  # seconds for which what was killed stays down
_HOLD = 5.0  # seconds of faults that last
_APART = _SLOW = 12.0  # seconds; a call of a client lasts 8, and a lease 3
_STORM = 20  # times
_FULL = 4.0  # seconds
_STEPPED, _FELT = 10.0, 2.0  # seconds of a step, and until a process feels one


class Faults:
    """Carries out rounds."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.findings: list[str] = []

    def carry_out(self, one: Round) -> None:
        """Carry out a round; return when the fault is over and everything is started again."""
        getattr(self, f"_{one.kind}")(one)

    def _kill(self, one: Round) -> None:
        nodes = self._hit(one)
        for node in nodes:
            node.kill()
        time.sleep(_DOWN)
        # All at the same time, because the recovery of a broker takes a while.
        with ThreadPoolExecutor(len(nodes), "start") as pool:
            for done in [pool.submit(node.start) for node in nodes]:
                done.result()

    def _stop(self, one: Round) -> None:
        """Freeze nodes until their leases are over, and let them continue."""
        nodes = self._hit(one)
        try:
            for node in nodes:
                node.send(signal.SIGSTOP)
            time.sleep(2 * LEASE)
        finally:
            for node in nodes:
                node.send(signal.SIGCONT)

    def _clock(self, one: Round) -> None:
        """Step the clocks of nodes, of a broker that of its workers, and set them right again."""
        assert self._nodes.clocks is not None
        for step, seconds in ((one.how[0], _STEPPED), ("+0", _FELT)):
            for name in one.nodes:
                self._nodes.clocks.step(name, step)
            time.sleep(seconds)

    def _interrupt(self, one: Round) -> None:
        """Kill in the middle of some work; the work is done again to its end."""
        (node,), (target,) = self._hit(one), one.how
        interruption = Interruption(cast("Work", one.kind), cast("Target", target), _DOWN)
        carry_out = adopt_twice if one.kind == "adopt" else interrupt
        self.findings += carry_out(node, self._nodes.direct[node.name], self._nodes.folder, interruption)

    _keep = _upgrade = _audit = _adopt = _interrupt

    def _crash(self, one: Round) -> None:
        restart(self._server(one))

    def _disk(self, one: Round) -> None:
        """Fill the file system of a broker's data until the server breaks off, and free it."""
        (node,) = self._hit(one)
        folder = self._nodes.folder / node.name
        run_full(folder, self._nodes.direct[node.name], _FULL)
        if isinstance(node, ContainerNode):
            node.kill()
            node.start()
        else:
            recover(self._server(one))

    def _detach(self, one: Round) -> None:
        self._container(one).detached(_APART)

    def _oneway(self, one: Round) -> None:
        self._container(one).one_way(cast("Way", one.how[0]), _APART)

    def _link(self, one: Round) -> None:
        self._container(one).link_down(_APART)

    def _terminate(self, one: Round) -> None:
        self._storm(one, _TERMINATE)

    def _cancel(self, one: Round) -> None:
        self._storm(one, _CANCEL)

    def _cut(self, one: Round) -> None:
        self._proxy(one).cut(_HOLD)

    def _halfopen(self, one: Round) -> None:
        self._proxy(one).half_open()

    def _storm(self, one: Round, statement: str) -> None:
        """Terminate or cancel what the clients and the workers do, again and again."""
        with self._connected(one) as conn:
            for _ in range(_STORM):
                conn.execute(statement.encode())
                time.sleep(_HOLD / _STORM)

    def _slow(self, one: Round) -> None:
        self._proxy(one).slow(_SLOW)
        time.sleep(_SLOW)

    def _partition(self, one: Round) -> None:
        """Keep some nodes and a broker apart for longer than clients wait and leases last."""
        for proxy in self._nodes.proxies[one.nodes[0]].values():
            proxy.part(_APART, one.how)
        time.sleep(_APART)

    def _hold(self, one: Round) -> None:
        """Hold an old transaction with an xid and a snapshot."""
        with self._connected(one) as conn, conn.transaction(force_rollback=True):
            conn.execute("set transaction isolation level repeatable read")
            conn.execute("insert into public.business values (0, 'none', 'none', null)")
            time.sleep(_HOLD)

    def _exhaust(self, one: Round) -> None:
        """Take every connection that is left, throw out half of the others, and keep it so."""
        with ExitStack() as stack:
            admin = stack.enter_context(self._connected(one))
            mine: list[int] = []
            until = None
            while until is None or time.monotonic() < until:
                try:
                    mine.append(stack.enter_context(self._connected(one)).info.backend_pid)
                except psycopg.OperationalError:
                    if until is None:
                        until = time.monotonic() + _HOLD
                        admin.execute(f"{_TERMINATE} and not pid = any(%s) and pid %% 2 = 0".encode(), [mine])
                    time.sleep(0.05)

    def _lock(self, one: Round) -> None:
        """Deadlock with the producers: lock the business tables against the order of their work."""
        with self._connected(one) as conn:
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

    def _timeout(self, one: Round) -> None:
        """Let statements and locks of all sessions time out soon, by beginning new sessions."""
        with self._connected(one) as conn:
            try:
                conn.execute("alter database broker set statement_timeout = '15ms'")
                conn.execute("alter database broker set lock_timeout = '2ms'")
                conn.execute(_TERMINATE.encode())
                time.sleep(_HOLD)
            finally:
                conn.execute("alter database broker reset statement_timeout")
                conn.execute("alter database broker reset lock_timeout")
                conn.execute(_TERMINATE.encode())

    def _container(self, one: Round) -> Container:
        (node,) = self._hit(one)
        assert isinstance(node, ContainerNode)
        return node.container

    def _hit(self, one: Round) -> list[Node]:
        return [self._nodes.nodes[name] for name in one.nodes]

    def _proxy(self, one: Round) -> Proxy:
        """That before a broker's server."""
        return self._nodes.proxies[one.nodes[0]][one.nodes[0]]

    def _server(self, one: Round) -> EmbeddedServer:
        (node,) = self._hit(one)
        assert node.server is not None
        return node.server

    def _connected(self, one: Round) -> psycopg.Connection[Any]:
        """A session of a broker by its own port."""
        dsn = self._nodes.direct[one.nodes[0]]
        return psycopg.connect(dsn, autocommit=True, connect_timeout=10, application_name="chaos")
