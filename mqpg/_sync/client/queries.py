# Generated from mqpg/_async/client/queries.py by tools/async_to_sync.py: change that file.
"""What consumers, producers and commands ask the broker beside the SQL API.

`mq.queries` is their one door to the broker: they call no private method of the client.
Applications do not need it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller, scalar
from mqpg.connection.statements import statement
from mqpg.values.arguments import interval, text_of
from mqpg.values.choices import Checker, Mode, OnFailure, TopicKind
from mqpg.values.errors import (
    ConfigurationError,
    ConnectionFailed,
    DatabaseError,
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
_SUBSCRIPTION = "from mqpg._subscription_facts(cast(%(consumer_group)s as text), cast(%(topic)s as text)) s"
_MODE = statement(f"select s.mode {_SUBSCRIPTION}")
_ON_FAILURE = statement(f"select s.on_failure {_SUBSCRIPTION}")
_DIFFERENCES = statement("""
    select d.* from mqpg._subscription_differences(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(filter)s as text), cast(%(tags)s as text[]),
        cast(%(max_attempts)s as int), cast(%(retry_delay)s as interval), cast(%(on_failure)s as text)) as d
""")
_CHECKER = statement("select mqpg._checker_of(cast(%(name)s as text))")
_DEAD_AMONG = statement("""
    select mqpg._dead_among(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(message_ids)s as bigint[]))
""")
_NOTE_LEDGER = statement(
    "select mqpg._note_ledger(cast(%(producer_group)s as text), cast(%(ledger)s as text), cast(%(place)s as text))"
)
_INCARNATION = statement("select b.incarnation from mqpg._broker() b")
_LOST_HALVES = statement("select mqpg._lost_halves(cast(%(handles)s as text[]))")
# A consumer with its own database has to apply the offsets that its subscription's filter chooses
# and that it was not moved over on purpose.
_WANTED = statement("""
    select mqpg._wanted_offsets(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(queue_id)s as int),
        cast(%(from_offset)s as bigint), cast(%(to_offset)s as bigint))
""")
_SURVIVING = statement("""
    select s.surviving, s.next_offset from mqpg._surviving_offset(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(queue_id)s as int),
        cast(%(incarnation)s as int)) s
""")
_GONE_OWNERS = statement("""
    select g.owner, g.queues, g.lag, g.changed_at from mqpg._gone_owners(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(consumer)s as text),
        cast(%(silence)s as float8)) g
""")
_PLACES = statement("""
    select p.message_id, p.queue_id, p.queue_offset, p.unread from mqpg._places_of(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(message_ids)s as bigint[])) p
""")
_PASSED_PREPARE = statement("""
    select mqpg._has_passed_prepare(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(queue_id)s as int),
        cast(%(handle)s as text), cast(%(from_offset)s as bigint), cast(%(to_offset)s as bigint))
""")
_BY_OTHERS = statement("""
    select o.owner, o.part_from, o.part_to, o.finished from mqpg._handled_by_others(
        cast(%(consumer_group)s as text), cast(%(topic)s as text), cast(%(queue_id)s as int),
        cast(%(consumers)s as text[]), cast(%(from_offset)s as bigint), cast(%(to_offset)s as bigint)) o
""")


class Queries:
    """Questions to one broker. They only read, so they are repeated when a connection is lost."""

    def __init__(self, client: BaseClient) -> None:
        self._client = client
        # Pairs of producer group and allowed checkers that were found to fit.
        self._fitting_checkers: set[tuple[str, tuple[Checker, ...]]] = set()
        # Pairs of producer group and identity of a ledger, and whether the broker has noted it.
        self._noted_ledgers: dict[tuple[str, str], bool] = {}
        # The largest payload of a topic in bytes, as last seen.
        self._max_payload: dict[str, int] = {}

    def ping(self) -> None:
        """Raise ConnectionFailed unless the broker answers now."""
        self._client._rows(_PING, {}, repeat=False)

    def lease_seconds(self, lease: str) -> float:
        """A lease that was given in PostgreSQL's notation, in seconds."""
        return float(self._scalar(_SECONDS, {"lease": lease}))

    def queue_count(self, topic: str) -> int:
        """How many queues a topic has. Raises UnknownTopic."""
        count = self._scalar(_QUEUES, {"topic": topic})
        if count is None:
            raise UnknownTopic(f"topic {shown(topic)} does not exist")
        return int(count)

    def topic_kind(self, topic: str) -> TopicKind | None:
        """The kind of a topic, or None if there is no such topic."""
        return cast("TopicKind | None", self._scalar(_KIND, {"topic": topic}))

    def subscription_mode(self, consumer_group: str, topic: str) -> Mode | None:
        """The mode in which a group reads a topic, or None if it is not subscribed."""
        values = {"consumer_group": consumer_group, "topic": topic}
        return cast("Mode | None", self._scalar(_MODE, values))

    def subscription_differences(
        self, consumer_group: str, topic: str, *, retry_delay: Interval, **wanted: Any
    ) -> list[tuple[str, str, str]]:
        """In which options the subscription differs from what is wanted: the option, what it has, what is wanted.

        The other options are filter, tags, max_attempts and on_failure.
        """
        names = {"consumer_group": consumer_group, "topic": topic}
        values = {**names, "retry_delay": interval(retry_delay), **wanted}
        return [(row[0], row[1], row[2]) for row in self._client._rows(_DIFFERENCES, values, repeat=True)]

    def require_subscription(self, consumer_group: str, topic: str) -> Mode:
        """The mode of a subscription. Raises UnknownSubscription where there is none."""
        mode = self.subscription_mode(consumer_group, topic)
        if mode is None:
            raise UnknownSubscription(
                f"consumer group {shown(consumer_group)} is not subscribed to topic {shown(topic)}"
            )
        return mode

    def on_failure(self, consumer_group: str, topic: str, conn: Caller | None = None) -> OnFailure:
        """What waits behind a failed message of this subscription."""
        values = {"consumer_group": consumer_group, "topic": topic}
        return cast("OnFailure", self._scalar(_ON_FAILURE, values, conn) or "skip")

    def dead_among(self, consumer_group: str, topic: str, message_ids: Sequence[int]) -> set[int]:
        """Which of these messages are dead letters of the group."""
        values = {"consumer_group": consumer_group, "topic": topic, "message_ids": list(message_ids)}
        return {row[0] for row in self._client._rows(_DEAD_AMONG, values, repeat=True)}

    def incarnation(self) -> int:
        """The broker's incarnation now. `info` may be older, from before an adoption."""
        return int(self._scalar(_INCARNATION, {}))

    def lost_halves(self, handles: Sequence[str]) -> list[str]:
        """Which of these handles the broker issued in an earlier incarnation and has lost since.

        A promotion or a restore has lost them, not retention.
        """
        return [row[0] for row in self._client._rows(_LOST_HALVES, {"handles": list(handles)}, repeat=True)]

    def gone_owners(
        self, consumer_group: str, topic: str, consumer: str, silence: float
    ) -> tuple[AbandonedQueues, ...]:
        """Other consumers that seem to be gone and own pinned queues where messages wait.

        A consumer that does nothing for `silence` seconds although messages wait counts as gone.
        """
        values = {"consumer_group": consumer_group, "topic": topic, "consumer": consumer, "silence": silence}
        rows = self._client._rows(_GONE_OWNERS, values, repeat=True)
        return tuple(AbandonedQueues(owner, tuple(queues), lag, since) for owner, queues, lag, since in rows)

    def wanted_offsets(
        self, consumer_group: str, topic: str, queue_id: int, from_offset: int, to_offset: int
    ) -> list[int]:
        """The offsets from `from_offset` to `to_offset` - 1 that the group has to apply."""
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "queue_id": queue_id,
            "from_offset": from_offset,
            "to_offset": to_offset,
        }
        return [row[0] for row in self._client._rows(_WANTED, values, repeat=True)]

    def places(
        self, consumer_group: str, topic: str, message_ids: Sequence[int]
    ) -> dict[int, tuple[int, int | None, bool]]:
        """Queue and offset of each message, and whether it expired unread and was then redriven."""
        values = {"consumer_group": consumer_group, "topic": topic, "message_ids": list(message_ids)}
        rows = self._client._rows(_PLACES, values, repeat=True)
        return {message_id: (queue_id, offset, unread) for message_id, queue_id, offset, unread in rows}

    def has_passed_prepare(
        self, consumer_group: str, topic: str, queue_id: int, handle: str, from_offset: int, to_offset: int
    ) -> bool:
        """Whether a range of a relay topic's queue has the PREPARE of a handle."""
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "queue_id": queue_id,
            "handle": handle,
            "from_offset": from_offset,
            "to_offset": to_offset,
        }
        return bool(self._scalar(_PASSED_PREPARE, values))

    def handled_by_others(
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
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "queue_id": queue_id,
            "consumers": list(consumers),
            "from_offset": messages[0].queue_offset,
            "to_offset": messages[-1].queue_offset + 1,
        }
        rows = self._client._rows(_BY_OTHERS, values, repeat=True)
        return [(owner, first, end) for owner, first, end, is_finished in rows if is_finished == finished]

    def surviving_offset(
        self, consumer_group: str, topic: str, queue_id: int, incarnation: int
    ) -> tuple[int | None, int]:
        """Up to where a queue still is what a consumer has read in an incarnation, and its end.

        The first is None if that incarnation is the present one.
        """
        values = {"consumer_group": consumer_group, "topic": topic, "queue_id": queue_id, "incarnation": incarnation}
        surviving, next_offset = (self._client._rows(_SURVIVING, values, repeat=True))[0]
        return surviving, next_offset

    def require_checker(self, producer_group: str, *allowed: Checker) -> None:
        """Refuse a group whose check-back looks into a ledger that its producer does not write.

        A half message without a ledger row is rolled back, so a message would be lost although its
        business was committed. The answer is remembered. Raises ConfigurationError, and
        UnknownProducerGroup where there is no such group.
        """
        if (producer_group, allowed) in self._fitting_checkers:
            return
        checker = self._scalar(_CHECKER, {"name": text_of(producer_group, "producer_group")})
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

    def note_ledger(self, producer_group: str, ledger: str, place: str) -> bool:
        """Tell the broker, once, where the ledger of an identity is.

        Returns:
            False if its schema is of an earlier release and knows no ledgers.
        """
        noted = self._noted_ledgers.get((producer_group, ledger))
        if noted is None:
            values = {"producer_group": producer_group, "ledger": ledger, "place": place}
            try:
                self._scalar(_NOTE_LEDGER, values)
                noted = True
            except DatabaseError as error:
                if error.sqlstate != "42883":
                    raise
                noted = False
            self._noted_ledgers[producer_group, ledger] = noted
        return noted

    def require_fits(self, topic: str, payload: str) -> None:
        """Raise PayloadTooLarge where the broker would, for a payload that is sent later.

        The limit of a topic is read once, and again for a payload that would not fit. While the
        broker is away every payload is accepted, because the broker itself refuses it later.
        """
        size = len(payload.encode())
        if size <= self._max_payload.get(topic, 0):
            return
        try:
            limit = self._scalar(_MAX_PAYLOAD, {"topic": topic}, repeat=False)
        except ConnectionFailed:
            return
        if limit is None:
            return
        self._max_payload[topic] = int(limit)
        if size > limit:
            raise PayloadTooLarge(f"payload has {size} bytes; topic {shown(topic)} allows {limit}")

    def _scalar(
        self, statement: Any, values: dict[str, Any], conn: Caller | None = None, *, repeat: bool = True
    ) -> Any:
        return scalar(self._client._rows(statement, values, conn, repeat=repeat))
