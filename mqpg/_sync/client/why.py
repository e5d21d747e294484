# Generated from mqpg/_async/client/why.py by tools/async_to_sync.py: change that file.
"""What holds a message up, and waiting until a consumer group is done with it."""

from __future__ import annotations

import time

from mqpg._sync._acompat import sleep
from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller, scalar
from mqpg.connection.backoff import Backoff
from mqpg.connection.statements import function
from mqpg.values.arguments import seconds, whole
from mqpg.values.cause import Cause
from mqpg.values.cause_sentences import explain
from mqpg.values.errors import NotDone
from mqpg.values.remedies import as_sql

__all__ = ["Why"]

_COLUMNS = "cause, cast(detail as text), cast(remedy as text), clock_timestamp()"
_OF_MESSAGE = function("why", "message_id bigint", columns=_COLUMNS, reads=True)
_OF_HALF = function("why", "handle text", columns=_COLUMNS, reads=True)
_OF_GROUP = function("why", "consumer_group text, topic text", columns=_COLUMNS, reads=True)
_ACKNOWLEDGED = function("acknowledged", "message_id bigint, consumer_group text", reads=True)


class Why(BaseClient):
    """Questions about what does not arrive. They only read."""

    def why(self, about: int | str, topic: str | None = None, *, conn: Caller | None = None) -> list[Cause]:
        """Say what holds a message, a half message or a consumer group up, and what would move it.

        Args:
            about: A message id, the handle of a half message, or, with `topic`, the name of a
                consumer group.
            topic: The name of the topic that the group reads. None: `about` is an id or a handle.
            conn: The caller's transaction (psycopg or SQLAlchemy connection, or Session). None: the
                call commits at once.

        Returns:
            The causes; an empty list where nothing holds it up.

        Raises:
            InvalidArgument: No message has this id.
            UnknownHandle: No half message has this handle.
            UnknownTopic: There is no such topic.
        """
        if topic is not None:
            rows = self._rows(_OF_GROUP, {"consumer_group": about, "topic": topic}, conn, repeat=True)
        elif isinstance(about, str):
            rows = self._rows(_OF_HALF, {"handle": about}, conn, repeat=True)
        else:
            rows = self._rows(_OF_MESSAGE, {"message_id": about}, conn, repeat=True)
        return [Cause.from_json(*row) for row in rows]

    def acknowledged(self, message_id: int, consumer_group: str, *, conn: Caller | None = None) -> bool:
        """Say whether a consumer group has acknowledged a message.

        Args:
            message_id: The message's id.
            consumer_group: The group's name.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            Whether it has. A dead letter and a message that is retried are not acknowledged.

        Raises:
            InvalidArgument: No message has this id.
            UnknownSubscription: The group does not read the message's topic.
            WrongState: The group never gets the message, for example because of its filter.
        """
        values = _ACKNOWLEDGED.values(whole(message_id, "message_id"), consumer_group)
        return bool(scalar(self._rows(_ACKNOWLEDGED, values, conn, repeat=True)))

    def wait_done(self, message_id: int, consumer_group: str, *, timeout: float = 30.0) -> None:
        """Wait until a consumer group has acknowledged a message, and so its effect is committed.

        Commit the message first. The call looks again and again, with pauses that grow from 20 ms
        to a second. It never waits inside the server.

        Args:
            message_id: The message's id. For a half message it is the id that `half_states` names.
            consumer_group: The group's name.
            timeout: How many seconds to wait. 0 looks once.

        Raises:
            NotDone: The group has not acknowledged it in time. The error says what holds it up.
            InvalidArgument: No message has this id, it is no whole number, or `timeout` is no
                number of seconds.
            UnknownSubscription: The group does not read the message's topic.
            WrongState: The group never gets the message, for example because of its filter.
        """
        limit = seconds(timeout, "timeout")
        deadline = time.monotonic() + limit
        pauses = Backoff(0.02, 1.0)
        while not self.acknowledged(message_id, consumer_group):
            if (left := deadline - time.monotonic()) <= 0:
                raise self._not_done(message_id, consumer_group, limit)
            sleep(min(pauses.next(), left))

    def _not_done(self, message_id: int, consumer_group: str, limit: float) -> NotDone:
        causes = [one for one in self.why(message_id) if one.consumer_group in (None, consumer_group)]
        text = "; ".join(f"{one.cause}: {explain(one, as_sql)}" for one in causes)
        return NotDone(
            f"consumer group {consumer_group} has not acknowledged message {message_id} within {limit:g} s"
            + (f" ({text})" if text else ""),
            causes=causes,
        )
