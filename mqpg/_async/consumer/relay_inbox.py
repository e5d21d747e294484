"""The inbox of a relay topic, which holds back uncommitted messages (protocol T4).

The steps are FastMiniMQ's. S3: a PREPARE is stored under its handle, and the last one counts. S7: a
COMMIT deletes it in the transaction of the effect. A ROLLBACK deletes it. S4, S8: the position moves in
the same transaction, so a crash between two of these steps leaves no trace.

A COMMIT without a PREPARE is ignored only where it is a repetition: a producer may repeat the phases that
it sends itself. The broker's own COMMIT comes once. Without its PREPARE the message becomes a dead letter:
at once if the PREPARE was skipped or was deleted from the inbox, and after its attempts if the PREPARE waits
for a retry, is a dead letter, or waits in the database of the queue's last owner.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg

from mqpg._async._acompat import DriverConnection, PgConnection
from mqpg._async.client.client import AsyncClient
from mqpg.handlers.failures import InboxFailed
from mqpg.handlers.options import ConsumerOptions
from mqpg.handlers.outcomes import Reject
from mqpg.user_tables.drivers import is_unstorable
from mqpg.values.errors import ConfigurationError, Error, InvalidArgument, LedgerError, WrongState
from mqpg.values.messages import RETRY_LANE, Message
from mqpg.values.translation import translate

if TYPE_CHECKING:
    from mqpg._async._acompat import Connection
    from mqpg._async.stores.database import UserDatabase
    from mqpg._async.stores.offsets import Offsets
    from mqpg._async.stores.prepared import PreparedMessages

__all__ = ["RelayInbox"]

logger = logging.getLogger("mqpg")

# Headers of a phase.
_PHASE, _HANDLE = "mqpg-phase", "mqpg-handle"

_LONGEST_HANDLE = 200
_IN_ORDER = ("exclusive", "pinned")


class RelayInbox:
    """What one group has seen prepared and not yet decided, in the database of its effects.

    For an ordinary topic it does nothing. `offsets`: the positions in the same database, if it is
    the consumer's own.
    """

    def __init__(self, options: ConsumerOptions, offsets: Offsets | None = None) -> None:
        self._group, self._topic, self._mode = options.group, options.topic, options.wanted_mode
        self._options = options
        self._prepared: PreparedMessages
        self._relays: bool | None = None
        self._offsets = offsets
        self._mq: AsyncClient | None = None

    async def create(self, mq: AsyncClient, database: UserDatabase | None) -> None:
        """Create the inbox of a relay topic, once: in `database`, else at the broker.

        Raises ConfigurationError for a mode in which the phases of a half message may overtake one
        another.
        """
        self._mq = mq
        if self._relays is not None:
            return
        relays = await mq.queries.topic_kind(self._topic) == "relay"
        if relays and self._mode not in _IN_ORDER:
            raise ConfigurationError(
                f"topic {self._topic} relays undecided messages: its consumers must have mode exclusive or pinned"
            )
        if relays:
            await self._create_table(mq, database)
        self._relays = relays

    async def refuse(self, mq: AsyncClient) -> None:
        """Raise ConfigurationError for a relay topic, whose consumers need a transaction."""
        if self._relays is None:
            self._relays = await mq.queries.topic_kind(self._topic) == "relay"
        if self._relays:
            raise ConfigurationError(
                f"topic {self._topic} relays undecided messages: its consumers need a transaction for their inbox"
            )

    async def _create_table(self, mq: AsyncClient, database: UserDatabase | None) -> None:
        # With them comes SQLAlchemy, which consumers of other topics need not load.
        from mqpg._async.stores.create_tables import create_beside_queue, ensure_tables
        from mqpg._async.stores.prepared import PreparedMessages
        from mqpg.user_tables.tables import prepared

        self._prepared = PreparedMessages(self._group, self._topic, self._options.schema)
        if database is not None:
            await ensure_tables(database, prepared)
            return
        async with mq.transaction() as conn:
            await create_beside_queue(conn, prepared, self._options.schema, self._options.create_tables)

    async def admit(self, messages: Sequence[Message], conn: PgConnection | Connection) -> Sequence[Message]:
        """The messages of a delivery that take effect now.

        The others are stored or dropped, in the transaction.
        """
        if not self._relays:
            return messages
        from sqlalchemy.exc import SQLAlchemyError

        try:
            found = [await self._admit(message, conn) for message in messages]
        except (psycopg.Error, SQLAlchemyError, LedgerError) as error:
            # What the database cannot hold is the message's fault, so it must not stop the queue.
            failed = InvalidArgument if is_unstorable(error) else InboxFailed
            raise failed(f"{self._group}/{self._topic}: inbox mqpg_prepared: {translate(error)}") from error
        return [message for message in found if message is not None]

    async def _admit(self, message: Message, conn: PgConnection | Connection) -> Message | None:
        phase, handle = _phase(message)
        if phase is None:
            return message
        if len(handle) > _LONGEST_HANDLE or not handle.isascii():
            # This is the message's fault, so it must not stop the queue.
            raise InvalidArgument(f"header {_HANDLE} must have at most {_LONGEST_HANDLE} characters, all of them ASCII")
        if phase == "prepare":
            await self._prepared.store(conn, handle, message.raw, message.message_id, message.queue_id)
            return None
        body = await self._prepared.take(conn, handle)
        if phase == "commit" and body is not None:
            return message if message.raw != "null" else replace(message, raw=body)
        if phase == "commit":
            await self._require_repetition(message, handle, conn)
            logger.info("%s/%s: COMMIT of %s without a PREPARE is ignored", self._group, self._topic, handle)
        return None

    def takes_effect(self, message: Message) -> bool:
        """Whether it is more than a PREPARE or a ROLLBACK, which several databases may note."""
        return not self._relays or _phase(message)[0] in (None, "commit")

    async def holds(self, message: Message, conn: Connection) -> bool:
        """Whether it is a COMMIT whose PREPARE is here, so that its effect did not take place."""
        phase, handle = _phase(message)
        return bool(self._relays) and phase == "commit" and await self._prepared.has(conn, handle)

    async def _require_repetition(self, message: Message, handle: str, conn: PgConnection | Connection) -> None:
        """Raise an error for a COMMIT that is no repetition, so that its effect did not take place."""
        if self._mq is None:
            return
        queue_id, first, end, at_broker = message.queue_id, 0, 0, None
        try:
            if isinstance(conn, DriverConnection):
                at_broker = conn
            elif self._offsets is not None:
                queue_id, end = await self._place(self._mq, message)
                position = await self._offsets.position(conn, (await self._mq.info()).broker_id, queue_id, lock=False)
                first = 0 if position is None else position.first_offset or 0
            repeated = await self._mq.queries.is_repetition(
                self._group, self._topic, message.message_id, handle, queue_id, first, end, at_broker
            )
        except Error as error:  # the broker does not answer
            raise InboxFailed(f"{self._group}/{self._topic}: {error}") from error
        if not repeated:
            elsewhere = (
                ", or may wait in the database of the queue's last owner, because this one began queue "
                f"{queue_id} at offset {first}"
            )
            failed = Reject if repeated is None and not first else WrongState  # no attempt would find it
            raise failed(
                f"COMMIT of {handle} without its PREPARE, which waits for a retry, is a dead letter, was skipped or is "
                f"no longer in mqpg_prepared{elsewhere if first else ''}: redrive it once the PREPARE is there, or "
                "discard it if it took effect"
            )

    async def _place(self, mq: AsyncClient, message: Message) -> tuple[int, int]:
        """Queue and offset of a message, also of one that came from the retry lane."""
        if message.queue_id != RETRY_LANE:
            return message.queue_id, message.queue_offset
        places = await mq.queries.places(self._group, self._topic, [message.message_id])
        queue_id, offset, _ = places.get(message.message_id, (RETRY_LANE, None, False))
        return queue_id, 2**62 if offset is None else offset


def _phase(message: Message) -> tuple[str | None, str]:
    headers = message.headers if isinstance(message.headers, dict) else {}
    phase, handle = headers.get(_PHASE), headers.get(_HANDLE)
    if phase in ("prepare", "commit", "rollback") and isinstance(handle, str):
        return phase, handle
    return None, ""
