"""Opening ledgers for check-backs, and telling an unreachable one from one that has no verdict."""

from __future__ import annotations

from urllib.parse import quote

import sqlalchemy

from mqpg import Ledger, errors
from mqpg.dsn import to_sqlalchemy

__all__ = ["NoVerdict", "open_ledger", "require_reachable"]

# What a server that vanished or froze may cost, in seconds (tcp_user_timeout: milliseconds). The URL may say otherwise.
_PATIENCE = {
    "postgresql": {"connect_timeout": "5", "keepalives_idle": "10", "tcp_user_timeout": "20000"},
    "pymysql": {"connect_timeout": "5", "read_timeout": "15", "write_timeout": "15"},
}


class NoVerdict(Exception):
    """The ledger cannot be asked now; says why."""


def open_ledger(url: str) -> Ledger:
    """The ledger at a SQLAlchemy URL; connects later. Raises mqpg.ConfigurationError."""
    target = to_sqlalchemy(url)
    patience = _PATIENCE.get(target.drivername.partition("+")[2]) or _PATIENCE.get(target.get_backend_name(), {})
    target = target.update_query_dict({key: value for key, value in patience.items() if key not in target.query})
    if target.get_backend_name() == "sqlite" and "uri" not in target.query and target.database:
        # Without `mode=rw` SQLite makes a missing file, where no producer ever wrote.
        target = target.set(
            database=f"file:{quote(target.database)}", query={**target.query, "mode": "rw", "uri": "true"}
        )
    return Ledger(target)


def require_reachable(ledger: Ledger) -> None:
    """Raise NoVerdict unless the ledger's database answers."""
    try:
        with ledger.database.engine.connect() as connection:
            connection.execute(sqlalchemy.select(1))
    except Exception as error:  # whatever the driver raises
        raise NoVerdict(str(errors.translate(error))) from error
