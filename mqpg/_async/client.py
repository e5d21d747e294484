"""The client: every call of the SQL API, by role."""

from __future__ import annotations

from typing import Any

from mqpg._async.admin import Administering
from mqpg._async.check import Checking
from mqpg._async.core import connected, resolve_dsn
from mqpg._async.letters import Letters
from mqpg._async.reconciling import Reconciling
from mqpg._async.requests import Requesting
from mqpg._async.subscriptions import Subscriptions
from mqpg._async.transact import Transacting
from mqpg.settings import Settings

__all__ = ["AsyncClient", "connect_async"]


class AsyncClient(Requesting, Transacting, Checking, Subscriptions, Letters, Administering, Reconciling):
    """A broker. Calls have the names, order and defaults of the SQL functions, and each takes `conn=`:

    a psycopg connection, a SQLAlchemy Connection or a Session. With it the call runs in the caller's
    transaction and is committed by the caller; without it, at once, on a connection of the client's pool.
    Calls that may be repeated survive a restart of the server. Errors are those of mqpg.errors.
    """


async def connect_async(dsn: str | None = None, **settings: Any) -> AsyncClient:
    """Connect to a broker and verify that it answers and that its schema fits.

    Where `dsn` is None: MQPG_DATABASE_URL, DATABASE_URL, PG*, else the embedded server. `settings` are
    fields of mqpg.settings.Settings. Raises ConfigurationError, ConnectionFailed, SchemaError.
    """
    chosen = Settings.read(**settings)
    client = AsyncClient(await resolve_dsn(dsn, chosen), chosen)
    await connected(client)
    return client
