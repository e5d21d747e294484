# Generated from mqpg/_async/client.py by tools/async_to_sync.py: change that file.
"""The client: every call of the SQL API, by role."""

from __future__ import annotations

from typing import Any

from mqpg._sync.admin import Administering
from mqpg._sync.check import Checking
from mqpg._sync.core import connected, resolve_dsn
from mqpg._sync.letters import Letters
from mqpg._sync.reconciling import Reconciling
from mqpg._sync.requests import Requesting
from mqpg._sync.subscriptions import Subscriptions
from mqpg._sync.transact import Transacting
from mqpg.settings import Settings

__all__ = ["Client", "connect"]


class Client(Requesting, Transacting, Checking, Subscriptions, Letters, Administering, Reconciling):
    """A broker. Calls have the names, order and defaults of the SQL functions, and each takes `conn=`:

    a psycopg connection, a SQLAlchemy Connection or a Session. With it the call runs in the caller's
    transaction and is committed by the caller; without it, at once, on a connection of the client's pool.
    Calls that may be repeated survive a restart of the server. Errors are those of mqpg.errors.
    """


def connect(dsn: str | None = None, **settings: Any) -> Client:
    """Connect to a broker and verify that it answers and that its schema fits.

    Where `dsn` is None: MQPG_DATABASE_URL, DATABASE_URL, PG*, else the embedded server. `settings` are
    fields of mqpg.settings.Settings. Raises ConfigurationError, ConnectionFailed, SchemaError.
    """
    chosen = Settings.read(**settings)
    client = Client(resolve_dsn(dsn, chosen), chosen)
    connected(client)
    return client
