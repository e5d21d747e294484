"""A broker at two addresses: a primary and a synchronous standby, which take turns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack

from mqpg import migrate
from mqpg.embedded import EmbeddedServer, find_binaries
from tests.support.servers import free_ports
from tests.support.standby import Pair, replicated

__all__ = ["TakingTurns", "taking_turns"]


class TakingTurns:
    """The primary is destroyed, the standby promoted, and a new standby made at the free address."""

    def __init__(self, primary: EmbeddedServer, ports: list[int], stack: ExitStack) -> None:
        self._stack, self._ports = stack, ports
        self._pair = self._replicate(primary)

    def dsn(self, database: str = "broker") -> str:
        """The DSN of both hosts."""
        one = self._pair.standby
        both = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        return one.dsn(database).replace(f"127.0.0.1:{one.port}", both)

    def fail_over(self) -> None:
        """Destroy the primary and promote the standby. Commits no longer wait for anybody."""
        self._pair.destroy_primary()
        self._pair.promote()

    def rebuild(self) -> None:
        """Make a standby of what was promoted."""
        self._pair = self._replicate(self._pair.standby)

    def _replicate(self, primary: EmbeddedServer) -> Pair:
        port = next(port for port in self._ports if port != primary.port)
        return self._stack.enter_context(replicated(primary, port))


@contextlib.contextmanager
def taking_turns() -> Iterator[TakingTurns]:
    """Make the pair, with the schema in the database `broker`, until the block ends."""
    ports = free_ports(2)
    with ExitStack() as stack:
        primary = stack.enter_context(EmbeddedServer(port=ports[0], binaries=find_binaries()))
        migrate.upgrade(primary.create_database("broker"))
        yield TakingTurns(primary, ports, stack)
