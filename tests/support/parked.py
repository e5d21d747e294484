"""Sessions of clients that the next client gets, as from PgBouncer in session mode.

The first call of each function in a session costs most of a test, because it is parsed and planned.
"""

import threading
from collections.abc import Generator
from typing import Any

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from mqpg.connection.forking import abandon, in_child
from mqpg.connection.options import has_news
from mqpg.connection.pooled import AsyncBrokerConnection, BrokerConnection

__all__ = ["Parked"]

_RESET = b"""
close all; set session authorization default; reset role; reset all; unlisten *; select pg_advisory_unlock_all();
discard temp; discard sequences; deallocate all
"""
_MOST = 12


class Parked:
    """The sessions on one database that clients of this process have closed."""

    def __init__(self, dsn: str) -> None:
        found = conninfo_to_dict(dsn)
        self._place, self._lock = {f"{name}={found.get(name)}" for name in ("dbname", "host", "port")}, threading.Lock()
        self._idle: list[tuple[str, PGconn]] = []
        self._closed: PGconn = pq.PGconn.connect_start(b"host=/nowhere")
        self._closed.finish()
        in_child(self)

    def after_fork(self) -> None:
        """Leave them to the parent."""
        abandon(self._idle)
        self._idle, self._lock = [], threading.Lock()

    @property
    def pids(self) -> list[int]:
        """The processes of the server that serve them."""
        return [one.backend_pid for _, one in self._idle if one.status == ConnStatus.OK]

    def take(self, conninfo: str) -> PGconn | None:
        """A session that was made with the same parameters. None: there is none."""
        with self._lock:
            for place, (made_with, one) in enumerate(self._idle):
                if made_with == conninfo:
                    del self._idle[place]
                    return one if one.status == ConnStatus.OK and not has_news(one.socket) else None
        return None

    def park(self, connection: Any) -> None:
        """Keep the session of a connection that is being closed, if it can be made as new. The connection is closed."""
        conninfo, one = getattr(connection, "made_with", ""), connection.pgconn
        known = self._place <= set(conninfo.split()) and not connection.inherited and len(self._idle) < _MOST
        if known and one.transaction_status == TransactionStatus.IDLE and not has_news(one.socket):
            one.notice_handler = one.notify_handler = None
            if one.exec_(_RESET).status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
                connection.pgconn, connection._closed = self._closed, True
                with self._lock:
                    self._idle.append((conninfo, one))

    def close(self) -> None:
        """Close them."""
        with self._lock:
            for _, one in self._idle:
                one.finish()
            self._idle.clear()

    def install(self, monkeypatch: Any) -> None:
        """Let the clients of this process come here first."""
        sync_close, async_close = BrokerConnection.close, AsyncBrokerConnection.close

        def close(connection: BrokerConnection) -> None:
            self.park(connection)
            sync_close(connection)

        async def close_async(connection: AsyncBrokerConnection) -> None:
            self.park(connection)
            await async_close(connection)

        monkeypatch.setattr(BrokerConnection, "close", close)
        monkeypatch.setattr(AsyncBrokerConnection, "close", close_async)
        kind: Any
        for kind in (BrokerConnection, AsyncBrokerConnection):
            monkeypatch.setattr(kind, "_connect_gen", classmethod(self._connecting(kind._connect_gen.__func__)))

    def _connecting(self, connect: Any) -> Any:
        def gen(kind: Any, conninfo: str = "", **options: Any) -> Generator[Any, Any, Any]:
            parked = self.take(conninfo)
            made = kind(parked) if parked else (yield from connect(kind, conninfo, **options))
            made.made_with = conninfo
            return made

        return gen
