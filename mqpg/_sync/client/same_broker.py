# Generated from mqpg/_async/client/same_broker.py by tools/async_to_sync.py: change that file.
"""Whether a connection that a caller hands in as `conn=` leads to the client's own broker.

Another database may have mqpg too, and a topic of the same name. A message that is sent there by
mistake is lost for whoever waits for it here. The broker's id tells them apart.

The question costs one round trip, so it is asked at most once for each connection to the server. It
is not asked at all where a psycopg connection leads to the same address and database as the
client's own. Behind a pooler the address differs although the broker is the same. SQLAlchemy's
NullPool makes a connection for each transaction, and asks in each.
"""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any

from mqpg._sync._acompat import DriverConnection, PgConnection, is_sqlalchemy
from mqpg._sync.client.execute import OF_ANOTHER, Caller, rows_in, scalar
from mqpg.connection.dsn import describe
from mqpg.connection.statements import statement
from mqpg.values.errors import InvalidArgument

__all__ = ["SameBroker"]

_BROKER_ID = statement("select b.broker_id from mqpg._broker() b")
# SQLAlchemy keeps this dictionary as long as the connection to the server.
_KEY = "mqpg.broker_id"

_Place = tuple[bytes, bytes, bytes]


class SameBroker:
    """Refuses connections of other brokers.

    Args:
        dsn: The client's DSN, for the error.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._broker_id = ""
        self._known: weakref.WeakSet[PgConnection] = weakref.WeakSet()
        self._places: set[_Place] = set()

    def learn(self, broker_id: str, conn: PgConnection) -> None:
        """Note the id of the client's broker, and where a connection to it leads."""
        self._broker_id = broker_id
        self._places.add(_place(conn))

    def require(self, conn: Caller, *, again: bool = False) -> None:
        """Raise InvalidArgument for a connection of another broker.

        An error of the connection itself is that of the statement that follows. `again`: what was noted of a
        connection of SQLAlchemy may be out of date.
        """
        if isinstance(conn, DriverConnection):
            if conn not in self._known and not conn.closed:
                self._require_driver(conn)
        elif is_sqlalchemy(conn):
            self._require_sqlalchemy(conn, again)

    def _require_driver(self, conn: PgConnection) -> None:
        if (place := _place(conn)) not in self._places:
            self._compare(_broker_id(conn))
            self._places.add(place)
        self._known.add(conn)

    def _require_sqlalchemy(self, conn: Any, again: bool) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            info = _info(conn)
        except SQLAlchemyError:
            return
        if again or _KEY not in info:
            info[_KEY] = _broker_id(conn)
        self._compare(info[_KEY])

    def _compare(self, found: str) -> None:
        if found != self._broker_id:
            raise InvalidArgument(
                f"conn is a connection to broker {found}, not to broker {self._broker_id} of this client "
                f"({describe(self._dsn)}): mqpg.connect(…) makes a client of that database, and {OF_ANOTHER}"
            )


def _place(conn: PgConnection) -> _Place:
    """The address and the database that a connection leads to. Reading it costs nothing."""
    pgconn = conn.pgconn
    return pgconn.hostaddr or pgconn.host, pgconn.port, pgconn.db


def _broker_id(conn: Caller) -> str:
    return str(scalar(rows_in(conn, _BROKER_ID, {})))


def _info(conn: Any) -> MutableMapping[Any, Any]:
    """What SQLAlchemy keeps with the connection to the server, of a connection or a session."""
    from mqpg._sync._acompat import Connection

    return (conn if isinstance(conn, Connection) else conn.connection()).info
