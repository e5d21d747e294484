"""Opening ledgers for check-backs, and finding out whether a ledger can be reached."""

from __future__ import annotations

from urllib.parse import quote

import sqlalchemy

from mqpg import Ledger
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.values.translation import translate

__all__ = ["NoVerdict", "open_ledger", "require_reachable"]

# How many seconds a server that no longer answers may cost (tcp_user_timeout: milliseconds). The
# URL may set other values.
_PATIENCE = {
    "postgresql": {"connect_timeout": "5", "keepalives_idle": "10", "tcp_user_timeout": "20000"},
    "pymysql": {"connect_timeout": "5", "read_timeout": "15", "write_timeout": "15"},
}


class NoVerdict(Exception):
    """The ledger cannot answer now. Its text says why."""


def open_ledger(url: str) -> Ledger:
    """Open a ledger for check-backs. It connects when it is first used.

    Raises ConfigurationError if the URL is malformed, or its database is not supported.
    """
    target = to_sqlalchemy(url)
    patience = _PATIENCE.get(target.drivername.partition("+")[2]) or _PATIENCE.get(target.get_backend_name(), {})
    target = target.update_query_dict({key: value for key, value in patience.items() if key not in target.query})
    if target.get_backend_name() == "sqlite" and "uri" not in target.query and target.database:
        # Without `mode=rw` SQLite creates a missing file, in which no producer has written.
        target = target.set(
            database=f"file:{quote(target.database)}", query={**target.query, "mode": "rw", "uri": "true"}
        )
    return Ledger(target)


def require_reachable(ledger: Ledger) -> None:
    """Raise NoVerdict if the ledger's database does not answer."""
    try:
        with ledger.database.engine.connect() as connection:
            connection.execute(sqlalchemy.select(1))
    except Exception as error:  # whatever the driver raises
        raise NoVerdict(str(translate(error))) from error
