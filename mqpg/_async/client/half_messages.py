"""Half messages and the decisions over them (protocol T2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mqpg._async.client.batching import Batched, Batching, Values, column
from mqpg._async.client.execute import Caller, scalar
from mqpg.connection.statements import Statement, function
from mqpg.tracing import producing
from mqpg.values.arguments import encode, encode_all, handle_of, handles_of, interval, listed
from mqpg.values.messages import Interval, Outcome

__all__ = ["HalfMessages"]

# How long a decision that others may have to wait for waits for another session.
_SOON = "100ms"

_HALF = (
    "topic text, payload text, producer_group text, key text, tag text, headers jsonb, "
    "check_after interval, delay interval, dedup_id text, ledger text"
)
_HALVES = (
    "topic text, payloads text[], producer_group text, keys text[], tags text[], headers jsonb[], "
    "check_after interval, delay interval, ledger text"
)
_PREPARE = function("prepare", _HALF)
_PREPARE_BATCH = function("prepare_batch", _HALVES, columns="*")
_COMMIT = function("commit", "handle text")
_COMMIT_WITH = function("commit", "handle text, payload text")
_ROLLBACK = function("rollback", "handle text")
_COMMIT_BATCH = function("commit_batch", "handles text[]", columns="handle, outcome")
_COMMIT_BATCH_WITH = function("commit_batch", "handles text[], payloads text[]", columns="handle, outcome")
_ROLLBACK_BATCH = function("rollback_batch", "handles text[]", columns="handle, outcome")
_LOCAL_BEGIN = function("local_begin", "handle text")


def _collect_halves(batch: Sequence[Values]) -> Values:
    first = batch[0]
    return {
        "topic": first["topic"],
        "payloads": [values["payload"] for values in batch],
        "producer_group": first["producer_group"],
        "keys": column(batch, "key"),
        "tags": column(batch, "tag"),
        "headers": column(batch, "headers"),
        "check_after": first["check_after"],
        "delay": first["delay"],
        "ledger": first["ledger"],
    }


def _collect_handles(batch: Sequence[Values]) -> Values:
    return {"handles": [values["handle"] for values in batch]}


_BATCHED_PREPARE = Batched(_PREPARE, _PREPARE_BATCH, _collect_halves, repeat=True)
_BATCHED_COMMIT = Batched(
    single=_COMMIT,
    first=function("commit", "handle text", lock_timeout=_SOON),
    together=function("commit_batch", "handles text[]", columns="handle, outcome", lock_timeout=_SOON),
    collect=_collect_handles,
    repeat=True,
    once_each="handle",
    again={Outcome.COMMITTED.value: Outcome.ALREADY_COMMITTED.value},
)
_BATCHED_ROLLBACK = Batched(
    single=_ROLLBACK,
    first=function("rollback", "handle text", lock_timeout=_SOON),
    together=function("rollback_batch", "handles text[]", columns="handle, outcome", lock_timeout=_SOON),
    collect=_collect_handles,
    repeat=True,
    once_each="handle",
    again={Outcome.ROLLED_BACK.value: Outcome.ALREADY_ROLLED_BACK.value},
)


class HalfMessages(Batching):
    """Calls of a transactional producer.

    Decisions are idempotent: the first one stands, and the outcome of every later one says which it
    was.
    """

    async def prepare(
        self,
        topic: str,
        payload: Any,
        producer_group: str,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        check_after: Interval | None = None,
        delay: Interval | None = None,
        dedup_id: str | None = None,
        ledger: str | None = None,
        conn: Caller | None = None,
    ) -> str:
        """Store a half message, which stays invisible until it is committed (protocol T2, step 1).

        The half message is durable when the call returns, because the call runs on its own
        connection. With `conn` it is durable only after the caller's commit, and the local
        transaction must not begin before that.

        Args:
            topic: The topic's name.
            payload: Any object that JSON can hold, or mqpg.Json. `commit` may replace it.
            producer_group: The group that answers check-backs for this half message.
            key: Messages with the same key keep their order. None: no key.
            tag: A word that subscriptions may choose messages by. None: no tag.
            headers: Any object that JSON can hold. None: no headers.
            check_after: How long the half message may stay undecided before it is checked back.
                None: as the producer group says.
            delay: How long after the commit the message becomes visible. None: at once.
            dedup_id: A second half message with this id is not stored while the setting
                `dedup_window` lasts; the call then returns the handle of the first. None: no
                deduplication.
            ledger: The identity of the ledger in another database that gets the row of the local
                transaction, from `Ledger.identity`. Only a compensator that serves that ledger
                decides the half message. None: the one ledger of the group.
            conn: The caller's transaction: a psycopg or SQLAlchemy connection, or a Session. None:
                the call commits at once.

        Returns:
            The handle that names the half message in `commit`, `rollback` and the ledger.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownProducerGroup: There is no such producer group.
            InvalidArgument: An argument is out of range, or the payload is not JSON.
            PayloadTooLarge: Payload or headers are larger than the topic allows.
            TooManyUndecided: The group has more undecided half messages than its `max_undecided`.
            ConnectionFailed: The broker did not answer within `retry_timeout`. It may have stored
                the half message. No producer knows its handle then, and the check-back rolls it
                back.
        """
        with producing("prepare", topic) as span:
            values: dict[str, Any] = {
                "topic": topic,
                "payload": encode(payload),
                "producer_group": producer_group,
                "key": key,
                "tag": tag,
                "headers": encode(span.carry(headers), "headers"),
                "check_after": interval(check_after),
                "delay": interval(delay),
                "dedup_id": dedup_id,
                "ledger": ledger,
            }
            # At worst a repetition leaves a half message whose handle no producer has. The
            # check-back rolls it back.
            if conn is None and dedup_id is None:
                same = (topic, producer_group, values["check_after"], values["delay"], ledger)
                size = len(values["payload"] or "")
                handle = str(await self._batched(_BATCHED_PREPARE, same, values, size))
            else:
                handle = str(scalar(await self._rows(_PREPARE, values, conn, repeat=True)))
            span.prepared(handle)
            return handle

    async def prepare_batch(
        self,
        topic: str,
        payloads: Sequence[Any],
        producer_group: str,
        *,
        keys: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        headers: Sequence[Any] | None = None,
        check_after: Interval | None = None,
        delay: Interval | None = None,
        ledger: str | None = None,
        conn: Caller | None = None,
    ) -> list[str]:
        """Store many half messages of one topic, all or none (protocol T2, step 1).

        Args:
            topic: The topic's name.
            payloads: The payloads, as in `prepare`.
            producer_group: The group that answers check-backs for these half messages.
            keys: One key or None for each payload. None: no message has a key.
            tags: One tag or None for each payload. None: no message has a tag.
            headers: One object or None for each payload. None: no message has headers.
            check_after: How long they may stay undecided before they are checked back. None: as the
                group says.
            delay: How long after its commit each message becomes visible. None: at once.
            ledger: As in `prepare`, for all of them. None: the one ledger of the group.
            conn: The caller's transaction, as in `prepare`. None: the call commits at once.

        Returns:
            The handles in the order of `payloads`. Each half message is decided separately.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownProducerGroup: There is no such producer group.
            InvalidArgument: The lists differ in length, or one element is invalid; nothing was
                stored.
            PayloadTooLarge: A payload, or headers, are larger than the topic allows; nothing was stored.
            TooManyUndecided: As in `prepare`.
            ConnectionFailed: The broker did not answer within `retry_timeout`.
        """
        bodies = encode_all(payloads)
        count = len(bodies or ())
        with producing("prepare", topic, count=count) as span:
            carried = encode_all(span.carry_all(listed(headers, "headers"), count), "headers")
            values = _PREPARE_BATCH.values(
                topic, bodies, producer_group, keys, tags, carried, check_after, delay, ledger
            )
            return [row[0] for row in await self._rows(_PREPARE_BATCH, values, conn, repeat=True)]

    async def commit(self, handle: str, payload: Any = None, *, conn: Caller | None = None) -> Outcome:
        """Commit a half message (protocol T2, step 3).

        Args:
            handle: The handle that `prepare` returned.
            payload: What is delivered instead of the prepared payload. None keeps the prepared one.
            conn: The caller's transaction, as in `prepare`. None: durable when the call returns.

        Returns:
            COMMITTED or ALREADY_COMMITTED; ALREADY_ROLLED_BACK where another decision came first;
            UNKNOWN where the handle names no half message of this broker.

        Raises:
            InvalidArgument: `handle` is no text, or the payload is not JSON.
            PayloadTooLarge: The payload is larger than the topic allows; nothing was decided.
            ConnectionFailed: The broker did not answer within `retry_timeout`. It is safe to call
                again.
        """
        with producing("commit", handle=handle):
            handle = handle_of(handle)
            if payload is None and conn is None:
                return Outcome(await self._batched(_BATCHED_COMMIT, (), {"handle": handle}))
            if payload is None:
                return Outcome(scalar(await self._rows(_COMMIT, {"handle": handle}, conn, repeat=True)))
            values = {"handle": handle, "payload": encode(payload)}
            return Outcome(scalar(await self._rows(_COMMIT_WITH, values, conn, repeat=True)))

    async def rollback(self, handle: str, *, conn: Caller | None = None) -> Outcome:
        """Roll a half message back (protocol T2, step 3).

        Args:
            handle: The handle that `prepare` returned.
            conn: The caller's transaction, as in `prepare`. None: durable when the call returns.

        Returns:
            ROLLED_BACK or ALREADY_ROLLED_BACK; ALREADY_COMMITTED where another decision came first;
            UNKNOWN where the handle names no half message of this broker.

        Raises:
            InvalidArgument: `handle` is no text.
            ConnectionFailed: The broker did not answer within `retry_timeout`. It is safe to call
                again.
        """
        with producing("rollback", handle=handle):
            handle = handle_of(handle)
            if conn is None:
                return Outcome(await self._batched(_BATCHED_ROLLBACK, (), {"handle": handle}))
            return Outcome(scalar(await self._rows(_ROLLBACK, {"handle": handle}, conn, repeat=True)))

    async def commit_batch(
        self, handles: Sequence[str], payloads: Sequence[Any] | None = None, *, conn: Caller | None = None
    ) -> list[tuple[str, Outcome]]:
        """Commit many half messages at once (protocol T2, step 3).

        Args:
            handles: The handles, of any topics and groups of this broker.
            payloads: One final payload for each handle; an element that is None keeps the prepared
                payload. None: all keep theirs.
            conn: The caller's transaction, as in `prepare`. None: durable when the call returns.

        Returns:
            Pairs of handle and outcome in the order of `handles`.

        Raises:
            InvalidArgument: One of `handles` is no text, or the lists differ in length; nothing
                was decided.
            PayloadTooLarge: A payload is larger than its topic allows; nothing was decided.
            ConnectionFailed: The broker did not answer within `retry_timeout`. It is safe to call
                again.
        """
        values: dict[str, Any] = {"handles": handles_of(handles)}
        if payloads is None:
            return await self._outcomes("commit", _COMMIT_BATCH, values, conn)
        values["payloads"] = encode_all(payloads)
        return await self._outcomes("commit", _COMMIT_BATCH_WITH, values, conn)

    async def rollback_batch(self, handles: Sequence[str], *, conn: Caller | None = None) -> list[tuple[str, Outcome]]:
        """Roll many half messages back at once (protocol T2, step 3).

        Args:
            handles: The handles, of any topics and groups of this broker.
            conn: The caller's transaction, as in `prepare`. None: durable when the call returns.

        Returns:
            Pairs of handle and outcome in the order of `handles`.

        Raises:
            InvalidArgument: One of `handles` is no text; nothing was decided.
            ConnectionFailed: The broker did not answer within `retry_timeout`. It is safe to call
                again.
        """
        return await self._outcomes("rollback", _ROLLBACK_BATCH, {"handles": handles_of(handles)}, conn)

    async def local_begin(self, handle: str, *, conn: Caller) -> None:
        """Write the ledger row of a local transaction in the broker's database (T2, step 2).

        It must be the first statement of that transaction.

        Args:
            handle: The handle that `prepare` returned.
            conn: The local transaction: a psycopg or SQLAlchemy connection, or a Session.

        Raises:
            UnknownHandle: The handle names no half message of this broker.
            Fenced: A check-back has already ruled that this transaction rolls back, so it must roll
                back.
        """
        await self._rows(_LOCAL_BEGIN, {"handle": handle}, conn)

    async def _outcomes(
        self, operation: str, statement: Statement, values: dict[str, Any], conn: Caller | None
    ) -> list[tuple[str, Outcome]]:
        with producing(operation, count=len(values["handles"] or ())):
            rows = await self._rows(statement, values, conn, repeat=True)
        return [(handle, Outcome(outcome)) for handle, outcome in rows]
