"""What consumers, producers and commands ask the broker beside the SQL API.

`mq.queries` is their one door to the broker: they call no private method of the client.
Applications do not need it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from mqpg._async.client.connection import BaseClient
from mqpg._async.client.execute import Caller, scalar
from mqpg.connection.statements import Statement, function, statement
from mqpg.values.arguments import interval, text_of
from mqpg.values.choices import Checker, Mode, OnFailure, TopicKind
from mqpg.values.errors import (
    ConfigurationError,
    ConnectionFailed,
    PayloadTooLarge,
    UnknownProducerGroup,
    UnknownSubscription,
    UnknownTopic,
    shown,
)
from mqpg.values.messages import AbandonedQueues, Interval, Message

__all__ = ["Queries"]

_PING = statement("select 1")
_SECONDS = statement("select cast(extract(epoch from cast(%(lease)s as interval)) as float8)")
_TOPIC = "from mqpg._topic_facts(cast(%(topic)s as text)) t"
_QUEUES = statement(f"select t.queues {_TOPIC}")
_KIND = statement(f"select t.kind {_TOPIC}")
_MAX_PAYLOAD = statement(f"select t.max_payload {_TOPIC}")
_GROUP = "consumer_group text, topic text"
_RANGE = "from_offset bigint, to_offset bigint"
_SUBSCRIPTION = "from mqpg._subscription_facts(cast(%(consumer_group)s as text), cast(%(topic)s as text)) s"
_MODE = statement(f"select s.mode {_SUBSCRIPTION}")
_ON_FAILURE = statement(f"select s.on_failure {_SUBSCRIPTION}")
_DIFFERENCES = function(
    "_subscription_differences",
    f"{_GROUP}, filter text, tags text[], max_attempts int, retry_delay interval, on_failure text",
    columns="*",
    reads=True,
)
_CHECKER = function("_checker_of", "producer_group text", reads=True)
_DEAD_AMONG = function("_dead_among", f"{_GROUP}, message_ids bigint[], former boolean", reads=True)
_DROPPED_AMONG = function("_dropped_among", f"{_GROUP}, message_ids bigint[]", reads=True)
_QUEUES_AGE = function("_queues_age", _GROUP, reads=True)
_NOTE_LEDGER = function("_note_ledger", "producer_group text, ledger text, place text", reads=True)
_NOTE_JOURNAL = function("_note_journal", f"{_GROUP}, consumer text, kept boolean, kept_before boolean", reads=True)
_INCARNATION = statement("select b.incarnation from mqpg._broker() b")
_LOST_HALVES = function("_lost_halves", "handles text[]", reads=True)
# A consumer with its own database has to apply the offsets that its subscription's filter chooses
# and that it was not moved over on purpose.
_WANTED = function("_wanted_offsets", f"{_GROUP}, queue_id int, {_RANGE}", reads=True)
_SURVIVING = function(
    "_surviving_offset", f"{_GROUP}, queue_id int, incarnation int", columns="surviving, next_offset", reads=True
)
_GONE_OWNERS = function(
    "_gone_owners", f"{_GROUP}, consumer text, silence float8", columns="owner, queues, lag, changed_at", reads=True
)
_PLACES = function(
    "_places_of",
    f"{_GROUP}, message_ids bigint[]",
    columns="message_id, queue_id, queue_offset, unread",
    reads=True,
)
_IS_REPETITION = function(
    "_is_repetition", f"{_GROUP}, message_id bigint, handle text, queue_id int, {_RANGE}", reads=True
)
_BY_OTHERS = function(
    "_handled_by_others",
    f"{_GROUP}, queue_id int, consumers text[], {_RANGE}",
    columns="owner, part_from, part_to, finished",
    reads=True,
)
# Sessions that hold a queue's lock while their transaction waits for a program that does not show that it lives. The
# other session of that program, which names them, must be of the same role and host, and as silent.
_SILENT = statement("""
    select case when a.pid = any(cast(%(pids)s as int[])) then pg_terminate_backend(a.pid) end, a.pid,
        host(a.client_addr), a.application_name, extract(epoch from clock_timestamp() - a.state_change)::float8,
        cast(date_trunc('second', clock_timestamp()) as text)
    from pg_stat_activity a
    where a.state like 'idle in transaction%%'
        and a.state_change < clock_timestamp() - make_interval(secs => %(seconds)s)
        and exists (
            select from pg_locks k
            where k.pid = a.pid and k.locktype = 'advisory' and k.granted and k.objsubid = 2
                and k.classid::bigint = 1836150833)
        and (
            select max(v.state_change) from pg_locks k join pg_stat_activity v on v.pid = k.pid
            where k.locktype = 'advisory' and k.granted and k.objsubid = 2 and k.classid::bigint = 1836150847
                and k.objid::bigint = a.pid and k.database = a.datid and v.usesysid = a.usesysid
                and v.client_addr is not distinct from a.client_addr
        ) < clock_timestamp() - make_interval(secs => %(seconds)s)
""")


class Queries:
    """Questions to one broker. They are repeated when a connection is lost.

    Nearly all of them only read. The others (`note_ledger`, `note_journal`, `end_silent_sessions`) do no more when they
    are repeated.
    """

    def __init__(self, client: BaseClient) -> None:
        self._client = client
        # Pairs of producer group and allowed checkers that were found to fit.
        self._fitting_checkers: set[tuple[str, tuple[Checker, ...]]] = set()
        # Pairs of producer group and identity of a ledger that the broker has noted.
        self._noted_ledgers: set[tuple[str, str]] = set()
        # The largest payload of a topic in bytes, as last seen.
        self._max_payload: dict[str, int] = {}

    async def ping(self) -> None:
        """Raise ConnectionFailed unless the broker answers now."""
        await self._client._rows(_PING, {}, repeat=False)

    async def lease_seconds(self, lease: str) -> float:
        """A lease that was given in PostgreSQL's notation, in seconds."""
        return float(await self._one(_SECONDS, lease))

    async def silent_sessions(self, seconds: float) -> list[int]:
        """Sessions of programs that have not shown for so long that they live, and that hold a queue: process ids."""
        rows = await self._client._rows(_SILENT, {"seconds": seconds, "pids": []}, repeat=True)
        return [row[1] for row in rows]

    async def end_silent_sessions(self, seconds: float, pids: list[int]) -> list[dict[str, Any]]:
        """End those of these sessions that still are such ones, and say which they were.

        Raises NotGranted for a session of another role.
        """
        rows = await self._client._rows(_SILENT, {"seconds": seconds, "pids": pids}, repeat=True)
        names = ("pid", "host", "application", "seconds", "at")
        return [dict(zip(names, row[1:], strict=True)) for row in rows if row[0]]

    async def queue_count(self, topic: str) -> int:
        """How many queues a topic has. Raises UnknownTopic."""
        count = await self._one(_QUEUES, topic)
        if count is None:
            raise UnknownTopic(f"topic {shown(topic)} does not exist")
        return int(count)

    async def topic_kind(self, topic: str) -> TopicKind | None:
        """The kind of a topic, or None if there is no such topic."""
        return cast("TopicKind | None", await self._one(_KIND, topic))

    async def subscription_mode(self, consumer_group: str, topic: str) -> Mode | None:
        """The mode in which a group reads a topic, or None if it is not subscribed."""
        return cast("Mode | None", await self._one(_MODE, consumer_group, topic))

    async def subscription_differences(
        self, consumer_group: str, topic: str, *, retry_delay: Interval, **wanted: Any
    ) -> list[tuple[str, str, str]]:
        """In which options the subscription differs from what is wanted: the option, what it has, what is wanted.

        The other options are filter, tags, max_attempts and on_failure.
        """
        names = {"consumer_group": consumer_group, "topic": topic}
        values = {**names, "retry_delay": interval(retry_delay), **wanted}
        return [(row[0], row[1], row[2]) for row in await self._client._rows(_DIFFERENCES, values, repeat=True)]

    async def require_subscription(self, consumer_group: str, topic: str) -> Mode:
        """The mode of a subscription. Raises UnknownSubscription where there is none."""
        mode = await self.subscription_mode(consumer_group, topic)
        if mode is None:
            raise UnknownSubscription(
                f"consumer group {shown(consumer_group)} is not subscribed to topic {shown(topic)}"
            )
        return mode

    async def on_failure(self, consumer_group: str, topic: str, conn: Caller | None = None) -> OnFailure:
        """What waits behind a failed message of this subscription."""
        return cast("OnFailure", await self._one(_ON_FAILURE, consumer_group, topic, conn=conn) or "skip")

    async def dead_among(
        self, consumer_group: str, topic: str, message_ids: Sequence[int], *, former: bool = False
    ) -> set[int]:
        """Which of these messages are dead letters of the group or were discarded, or with `former` also redriven."""
        return {row[0] for row in await self._ask(_DEAD_AMONG, consumer_group, topic, message_ids, former)}

    async def dropped_among(self, consumer_group: str, topic: str, message_ids: Sequence[int]) -> set[int]:
        """Which of these messages retention has dropped."""
        return {row[0] for row in await self._ask(_DROPPED_AMONG, consumer_group, topic, message_ids)}

    async def queues_age(self, consumer_group: str, topic: str) -> float | None:
        """For how many seconds the oldest rows of the topic's queues have been there. None: not known."""
        return cast("float | None", await self._one(_QUEUES_AGE, consumer_group, topic))

    async def incarnation(self) -> int:
        """The broker's incarnation now. `info` may be older, from before an adoption."""
        return int(await self._one(_INCARNATION))

    async def lost_halves(self, handles: Sequence[str]) -> list[str]:
        """Which of these handles the broker issued in an earlier incarnation and has lost since.

        A promotion or a restore has lost them, not retention.
        """
        return [row[0] for row in await self._ask(_LOST_HALVES, handles)]

    async def gone_owners(
        self, consumer_group: str, topic: str, consumer: str, silence: float
    ) -> tuple[AbandonedQueues, ...]:
        """Other consumers that seem to be gone and own pinned queues where messages wait.

        A consumer that does nothing for `silence` seconds although messages wait counts as gone.
        """
        rows = await self._ask(_GONE_OWNERS, consumer_group, topic, consumer, silence)
        return tuple(AbandonedQueues(owner, tuple(queues), lag, since) for owner, queues, lag, since in rows)

    async def wanted_offsets(
        self, consumer_group: str, topic: str, queue_id: int, from_offset: int, to_offset: int
    ) -> list[int]:
        """The offsets from `from_offset` to `to_offset` - 1 that the group has to apply."""
        return [row[0] for row in await self._ask(_WANTED, consumer_group, topic, queue_id, from_offset, to_offset)]

    async def places(
        self, consumer_group: str, topic: str, message_ids: Sequence[int]
    ) -> dict[int, tuple[int, int | None, bool]]:
        """Queue and offset of each message, and whether it expired unread and was then redriven."""
        rows = await self._ask(_PLACES, consumer_group, topic, message_ids)
        return {message_id: (queue_id, offset, unread) for message_id, queue_id, offset, unread in rows}

    async def is_repetition(
        self,
        consumer_group: str,
        topic: str,
        message_id: int,
        handle: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        conn: Caller | None = None,
    ) -> bool | None:
        """Whether the COMMIT that a consumer gets without its PREPARE is a repetition.

        False: its PREPARE has failed. None: it is none, and nothing is known of its PREPARE.
        """
        given = (consumer_group, topic, message_id, handle, queue_id, from_offset, to_offset)
        repeated: bool | None = await self._one(_IS_REPETITION, *given, conn=conn)
        return repeated

    async def handled_by_others(
        self,
        consumer_group: str,
        topic: str,
        queue_id: int,
        consumers: Collection[str],
        messages: Sequence[Message],
        *,
        finished: bool,
    ) -> list[tuple[str, int, int]]:
        """What consumers of other names got, or (`finished`) have done, of the range of these messages.

        Each part has the consumer's name, the first offset, and the one behind the last.
        """
        first, last = messages[0].queue_offset, messages[-1].queue_offset
        rows = await self._ask(_BY_OTHERS, consumer_group, topic, queue_id, consumers, first, last + 1)
        parts: list[tuple[str, int, int]] = []
        for owner, start, stop, is_finished in rows:
            if is_finished != finished:
                continue
            if parts and parts[-1][0] == owner and start <= parts[-1][2]:
                _, start, end = parts.pop()
                stop = max(stop, end)
            parts.append((owner, start, stop))
        return parts

    async def surviving_offset(
        self, consumer_group: str, topic: str, queue_id: int, incarnation: int
    ) -> tuple[int | None, int]:
        """Up to where a queue still is what a consumer has read in an incarnation, and its end.

        The first is None if that incarnation is the present one.
        """
        surviving, next_offset = (await self._ask(_SURVIVING, consumer_group, topic, queue_id, incarnation))[0]
        return surviving, next_offset

    async def require_checker(self, producer_group: str, *allowed: Checker) -> None:
        """Refuse a group whose check-back looks into a ledger that its producer does not write.

        It would find no row there and could take that for a rollback, although the business was
        committed. The answer is remembered. Raises ConfigurationError, and
        UnknownProducerGroup where there is no such group.
        """
        if (producer_group, allowed) in self._fitting_checkers:
            return
        checker = await self._one(_CHECKER, text_of(producer_group, "producer_group"))
        if checker is None:
            raise UnknownProducerGroup(
                f"producer_group {producer_group!r} does not exist: make it by mqpg group create {producer_group}, "
                "or by create_producer_group of the client"
            )
        if checker not in allowed:
            raise ConfigurationError(
                f"producer group {producer_group!r} has checker {checker}, which looks where this producer writes "
                f"nothing: it needs {', '.join(allowed[:-1])} or {allowed[-1]}"
            )
        self._fitting_checkers.add((producer_group, allowed))

    async def note_ledger(self, producer_group: str, ledger: str, place: str) -> None:
        """Tell the broker, once, where the ledger of an identity is."""
        if (producer_group, ledger) not in self._noted_ledgers:
            await self._one(_NOTE_LEDGER, producer_group, ledger, place)
            self._noted_ledgers.add((producer_group, ledger))

    async def note_journal(
        self, consumer_group: str, topic: str, consumer: str | None, *, kept: bool, kept_before: bool
    ) -> bool:
        """Tell the broker whether a consumer keeps a journal from its first delivery on.

        `kept_before`: the journal has rows of the group already. False: a member could not join a
        broadcast group now.
        """
        return bool(await self._one(_NOTE_JOURNAL, consumer_group, topic, consumer, kept, kept_before))

    async def require_fits(self, topic: str, payload: str) -> None:
        """Raise PayloadTooLarge where the broker would, for a payload that is sent later.

        The limit of a topic is read once, and again for a payload that would not fit. While the
        broker is away every payload is accepted, because the broker itself refuses it later.
        """
        size = len(payload.encode())
        if size <= self._max_payload.get(topic, 0):
            return
        try:
            limit = await self._one(_MAX_PAYLOAD, topic, repeat=False)
        except ConnectionFailed:
            return
        if limit is None:
            return
        self._max_payload[topic] = int(limit)
        if size > limit:
            raise PayloadTooLarge(f"payload has {size} bytes; topic {shown(topic)} allows {limit}")

    async def _ask(self, question: Statement, *given: Any) -> list[Sequence[Any]]:
        return await self._client._rows(question, question.values(*given), repeat=True)

    async def _one(self, question: Statement, *given: Any, conn: Caller | None = None, repeat: bool = True) -> Any:
        return scalar(await self._client._rows(question, question.values(*given), conn, repeat=repeat))
