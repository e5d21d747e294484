"""Half messages and their decisions (protocol T2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._async.produce import listed
from mqpg._sql import function
from mqpg.message import Interval, Outcome, encode, encode_all, interval

__all__ = ["Transacting"]

_PREPARE = function(
    "prepare",
    "topic text, payload text, producer_group text, key text, tag text, headers jsonb, "
    "check_after interval, delay interval, dedup_id text",
)
_PREPARE_BATCH = function(
    "prepare_batch",
    "topic text, payloads text[], producer_group text, keys text[], tags text[], headers jsonb[], "
    "check_after interval, delay interval",
    columns="*",
)
_COMMIT = function("commit", "handle text")
_COMMIT_WITH = function("commit", "handle text, payload text")
_ROLLBACK = function("rollback", "handle text")
_COMMIT_BATCH = function("commit_batch", "handles text[]", columns="handle, outcome")
_COMMIT_BATCH_WITH = function("commit_batch", "handles text[], payloads text[]", columns="handle, outcome")
_ROLLBACK_BATCH = function("rollback_batch", "handles text[]", columns="handle, outcome")
_LOCAL_BEGIN = function("local_begin", "handle text")


class Transacting(Core):
    """Calls of a transactional producer. Decisions are idempotent: the first stands, and the outcome says which."""

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
        conn: Caller | None = None,
    ) -> str:
        """Store a half message, invisible until it is committed; returns its handle.

        Durable when this returns: it runs on an own connection. With `conn` it is not before the caller's
        commit, and only then may the local transaction begin. A `dedup_id` seen within the dedup window stores
        nothing and returns the handle of the first. Raises UnknownTopic, UnknownProducerGroup, …
        """
        values = {
            "topic": topic,
            "payload": encode(payload),
            "producer_group": producer_group,
            "key": key,
            "tag": tag,
            "headers": encode(headers),
            "check_after": interval(check_after),
            "delay": interval(delay),
            "dedup_id": dedup_id,
        }
        # A repetition leaves at worst a half whose handle nobody has; the check-back rolls it back.
        return str(await self._value(_PREPARE, values, conn, repeat=True))

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
        conn: Caller | None = None,
    ) -> list[str]:
        """Store many half messages, all or none; returns their handles in argument order. See `prepare`."""
        values = {
            "topic": topic,
            "payloads": encode_all(payloads),
            "producer_group": producer_group,
            "keys": listed(keys, "keys"),
            "tags": listed(tags, "tags"),
            "headers": encode_all(headers),
            "check_after": interval(check_after),
            "delay": interval(delay),
        }
        return [row[0] for row in await self._rows(_PREPARE_BATCH, values, conn, repeat=True)]

    async def commit(self, handle: str, payload: Any = None, *, conn: Caller | None = None) -> Outcome:
        """Commit a half message, with its final payload where one is given.

        Durable when this returns (own connection), or with the caller's commit (`conn`).
        """
        if payload is None:
            return Outcome(await self._value(_COMMIT, {"handle": handle}, conn, repeat=True))
        values = {"handle": handle, "payload": encode(payload)}
        return Outcome(await self._value(_COMMIT_WITH, values, conn, repeat=True))

    async def rollback(self, handle: str, *, conn: Caller | None = None) -> Outcome:
        """Roll a half message back. See `commit`."""
        return Outcome(await self._value(_ROLLBACK, {"handle": handle}, conn, repeat=True))

    async def commit_batch(
        self, handles: Sequence[str], payloads: Sequence[Any] | None = None, *, conn: Caller | None = None
    ) -> list[tuple[str, Outcome]]:
        """Commit many half messages at once; a None in `payloads` keeps the prepared one."""
        values: dict[str, Any] = {"handles": listed(handles, "handles")}
        if payloads is None:
            return await self._outcomes(_COMMIT_BATCH, values, conn)
        return await self._outcomes(_COMMIT_BATCH_WITH, values | {"payloads": encode_all(payloads)}, conn)

    async def rollback_batch(self, handles: Sequence[str], *, conn: Caller | None = None) -> list[tuple[str, Outcome]]:
        """Roll many half messages back at once."""
        return await self._outcomes(_ROLLBACK_BATCH, {"handles": listed(handles, "handles")}, conn)

    async def local_begin(self, handle: str, *, conn: Caller) -> None:
        """Write the ledger row of a local transaction in the broker's own database: its first statement.

        Raises UnknownHandle, and Fenced when a check-back was faster: the transaction must roll back.
        """
        await self._rows(_LOCAL_BEGIN, {"handle": handle}, conn)

    async def _outcomes(self, statement: Any, values: dict[str, Any], conn: Caller | None) -> list[tuple[str, Outcome]]:
        rows = await self._rows(statement, values, conn, repeat=True)
        return [(handle, Outcome(outcome)) for handle, outcome in rows]
