"""The client of one broker: all calls, by the kind of program that makes them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mqpg._async._acompat import in_thread
from mqpg._async.client.arrow import Arrow
from mqpg._async.client.batching import Batching
from mqpg._async.client.check_back import CheckBack
from mqpg._async.client.connection import BaseClient
from mqpg._async.client.dead_letters import DeadLetters
from mqpg._async.client.half_messages import HalfMessages
from mqpg._async.client.maintenance import Maintenance
from mqpg._async.client.producer_groups import ProducerGroups
from mqpg._async.client.queries import Queries
from mqpg._async.client.receive import Receive
from mqpg._async.client.reconcile import Reconcile
from mqpg._async.client.request_reply import RequestReply
from mqpg._async.client.rights import Rights
from mqpg._async.client.send import Send
from mqpg._async.client.subscriptions import Subscriptions
from mqpg._async.client.topics import Topics
from mqpg._async.client.trace import Trace
from mqpg._async.client.why import Why
from mqpg.connection.settings import Settings
from mqpg.embedded.locate import resolve

__all__ = ["AsyncClient", "connect_async"]


class AsyncClient(
    RequestReply,
    Send,
    HalfMessages,
    Batching,
    CheckBack,
    Receive,
    Arrow,
    DeadLetters,
    Trace,
    Why,
    Reconcile,
    Topics,
    Subscriptions,
    ProducerGroups,
    Rights,
    Maintenance,
    BaseClient,
):
    """A connected broker, made by `connect_async`. Threads and tasks may share it.

    Calls have the names, the argument order and the defaults of the SQL functions. Only `ack` and
    `nack` take messages, where `ack_delivery` and `nack_delivery` take a receipt as in SQL. Most
    calls take `conn=`: a psycopg connection, a SQLAlchemy Connection or a Session. With it the call
    runs in the caller's transaction, which the caller commits. Without it the call commits at once,
    on a connection of the client's pool. A call that may safely be repeated survives a restart of
    the server. Errors are those of `mqpg.values.errors`.

    Args:
        dsn: The DSN in libpq notation.
        settings: How the client connects.
    """

    @cached_property
    def queries(self) -> Queries:
        """Questions that consumers, producers and commands ask beside the SQL API.

        Applications do not need them.
        """
        return Queries(self)


async def connect_async(dsn: str | None = None, **settings: Any) -> AsyncClient:
    """Connect to a broker, and verify that it answers and that its schema is of this release.

    Args:
        dsn: A PostgreSQL URL or libpq string, or "embedded" for a server in this folder, which is
            started as by `mqpg up`. None: MQPG_DATABASE_URL, DATABASE_URL, the PG* variables, or
            else the server that `mqpg up` runs in this folder.
        **settings: Fields of `mqpg.connection.settings.Settings`, such as `pool_max_size=20`.

    Returns:
        The client. Close it, or use it as a context manager.

    Raises:
        ConfigurationError: The DSN or a setting is invalid, or there is no DSN.
        ConnectionFailed: The broker does not answer.
        SchemaError: The schema is missing, or this release cannot work with it.
    """
    chosen = Settings.read(**settings)
    # Resolving may start the embedded server, which takes a second.
    client = AsyncClient(await in_thread(resolve, dsn, chosen), chosen)
    try:
        await client._open()
    except BaseException:
        await client.close()
        raise
    return client
