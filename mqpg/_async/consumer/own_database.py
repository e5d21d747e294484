"""Consumption into the consumer's own database, exactly once and in order (protocol C2).

The truth is the offsets row in that database, which is written in the transaction of the effect.
The broker's cursor follows by an acknowledgement after the local commit. A crash between the two
therefore costs a redelivery, whose messages lie below the local offset and are skipped. Where a
delivery begins behind the local offset, because the local database was restored or the broker moved
on, the messages between are read from the log with `fetch`.

A failed message must not be lost or applied twice, and it must not block its queue unless the
subscription says so:

- In the local transaction its effect is undone, a row `deferred` is written to the inbox under its
  id, and the offset moves past it. After the local commit it is nacked. Where a crash loses the
  nack, the redelivery finds the row and nacks the message then.
- A message of the retry lane (queue -1) is applied only under a `deferred` row, which becomes
  `applied` in the same transaction. A second delivery finds that and is only acknowledged.
- The broker delivers a message of the retry lane to the owner of its queue, as every other message.
  A retry without a row was never deferred by this database, which may have been restored or
  replaced, or may not be the one of the queue's last owner. Unless it certainly has no effect yet,
  it is not applied. It is nacked with that reason and becomes a dead letter, which a person can
  look at.
- A message that was delivered before to a consumer with another database, which did not acknowledge
  it, is deferred in the same way, but never applied here.
- If the subscription blocks on a failure, the local offset stops before the message, which is
  delivered again in its place.

The consumer stops where continuing would lose or repeat a message. It raises OffsetBeyondLog for a
local offset beyond the log, or for a log with another message at the last applied offset. It raises
OffsetOutOfRange for a log that no longer reaches back to the local offset. Offsets and inbox rows
name their broker, so a group may read topics of one name at several brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from mqpg._async._acompat import Connection, Event, run_sync
from mqpg._async.client.client import AsyncClient
from mqpg._async.client.execute import is_rolled_back
from mqpg._async.consumer.acknowledge import ack_delivery, nack_failures
from mqpg._async.consumer.applied_before import AppliedBefore
from mqpg._async.consumer.assignment import QueueAssignment
from mqpg._async.consumer.attempts import AskOnFailure, DeliveryResult, SavepointRunner, what_stands
from mqpg._async.consumer.call_handler import HandlerInvoker, Reply
from mqpg._async.consumer.log_check import LogCheck
from mqpg._async.consumer.relay_inbox import RelayInbox
from mqpg._async.stores.database import UserDatabase
from mqpg._async.stores.journal import Journal
from mqpg._async.stores.offsets import Offsets
from mqpg.handlers.failures import Failure, IterationLost, RecordedFailure, TransactionEnded, reason_of
from mqpg.handlers.options import ConsumerOptions
from mqpg.user_tables.drivers import is_answer, is_out_of_reach
from mqpg.values.errors import Error, ReceiptError, WrongState
from mqpg.values.messages import Message

__all__ = ["OwnDatabase"]

logger = logging.getLogger("mqpg")

# How many offsets are compared at a time where the delivery leaves some out.
_WINDOW = 4096
_NEVER_DEFERRED = "never deferred by this database: not known whether it was applied"
_IN_DOUBT = "not known whether it was applied: it was delivered before to "


class OwnDatabase:
    """Iterations of a consumer with its own database. Handlers get the SQLAlchemy connection."""

    def __init__(self, options: ConsumerOptions, invoke: HandlerInvoker) -> None:
        self._options = options
        self._database = UserDatabase(options.database, options.schema, options.create_tables)
        self._offsets = Offsets(self._database, options.group, options.topic, options.name)
        self._inbox = RelayInbox(options, self._offsets)
        self._runner = SavepointRunner(invoke, self._inbox)
        self._assignment = QueueAssignment(options)
        self._journal = Journal(options.group, options.topic, options.schema)
        self._recognised = AppliedBefore(self._offsets, self._journal)
        self._log_check = LogCheck(options.group, options.topic, self._database)
        self._left: dict[int, int] = {}  # the next offset of each queue, as this process left it

    async def close(self) -> None:
        """Close the local connections, unless the engine is the caller's."""
        await self._database.close()

    async def finish(self, mq: AsyncClient, worker: int) -> None:
        """Acknowledge the last delivery of a worker that makes no further step."""
        await self._assignment.ack_now(mq, worker)

    async def step(self, mq: AsyncClient, worker: int | None = None, stop: Event | None = None) -> int:
        """Handle one delivery: effect and offset in one local transaction, then the ack.

        Returns how many messages it had. With `stop` the next step makes the ack of a delivery that
        is done, or `finish`. Raises IterationLost.
        """
        await self._offsets.ensure()
        await self._assignment.subscribe(mq)
        await self._inbox.create(mq, self._database)
        if not self._assignment.noted:
            await self._note_journal(mq)
        delivery = await self._assignment.receive(mq, worker)
        if not delivery:
            return 0
        tried = self._runner.choose(delivery)
        try:
            try:
                if tried[0].queue_id < 0:
                    result = await self._apply_retries(mq, tried)
                else:
                    await self._catch_up(mq, tried)
                    result = await self._apply(mq, tried, claimed=True)
            except TransactionEnded as ended:
                self._database.renew()  # before it is noted, because the handler may have closed one or changed it
                tried = [one for one in tried if one.queue_offset <= ended.messages[-1].queue_offset]
                result = await self._note_end(mq, tried, ended)
        except Exception:
            # This is no fault of the messages. They come again, and no attempt is counted.
            with suppress(Error):
                await mq.release(str(delivery[0].receipt))
            self._log_check.note_return(tried[-1])
            self._database.renew()
            raise
        await self._reply(mq, result.replies)
        if stop is not None and not result.unacknowledged and len(tried) == len(delivery):
            self._assignment.ack_later(worker, str(delivery[0].receipt))
        else:
            await self._report(mq, delivery, tried, result)
        result.end_process()
        return len(tried)

    async def _note_journal(self, mq: AsyncClient) -> None:
        kept_before = False
        if self._options.journal:
            broker_id = await self._broker_id(mq)
            async with self._database.connect() as conn:
                kept_before = await self._journal.is_kept(conn, broker_id)
        await self._assignment.note_journal(mq, kept_before=kept_before)

    async def _note_end(self, mq: AsyncClient, tried: Sequence[Message], ended: TransactionEnded) -> DeliveryResult:
        """Note what came of messages whose transaction a handler has ended.

        If it was rolled back, they are done again, but not by this handler.
        """
        info = await mq.info()
        async with self._database.transaction() as conn:
            if ended.xid is not None and await is_rolled_back(conn, ended.xid):
                self._runner.suspect(ended.messages, ended)
                raise IterationLost
            result = what_stands(ended)
            if self._options.journal:
                await self._journal.write(conn, result.applied, info.broker_id)
            if tried[0].queue_id >= 0:
                position = await self._offsets.position(conn, info.broker_id, tried[0].queue_id, lock=True)
                position = position or await self._offsets.begin(conn, tried[0], info)
                for failure in result.failures:
                    await self._offsets.defer(conn, info.broker_id, failure.message, failure.reason)
                await self._offsets.move(conn, tried[-1], position, info)
            else:
                await self._offsets.mark_applied(conn, info.broker_id, result.applied)
            await conn.commit()
        return result

    async def _reply(self, mq: AsyncClient, replies: Sequence[Reply]) -> None:
        """Send the replies, after the effect is committed.

        A reply that cannot be sent is skipped, because any request can name an unknown topic.
        """
        for request, payload in replies:
            try:
                await mq.reply(request, payload)
            except Exception as error:
                logger.warning("%s/%s: no reply to message %d: %s", self._options.group, self._options.topic,
                               request.message_id, reason_of(error))  # fmt: skip

    async def _report(
        self, mq: AsyncClient, delivery: Sequence[Message], tried: Sequence[Message], result: DeliveryResult
    ) -> None:
        try:
            await nack_failures(mq, str(delivery[0].receipt), result.failures)
            await ack_delivery(mq, delivery, tried, result)
        except ReceiptError as error:
            # Another process of this name has taken over, and finds in the local database what was
            # done.
            logger.warning("%s/%s: %s", self._options.group, self._options.topic, error)

    async def _catch_up(self, mq: AsyncClient, messages: Sequence[Message]) -> None:
        """Apply from the log the messages that the delivery leaves out.

        Messages that the subscription's filter does not choose, or that it was moved over, are left
        out on purpose.
        """
        queue_id, first, last = messages[0].queue_id, messages[0].queue_offset, messages[-1].queue_offset
        whole = last - first + 1 == len(messages)
        delivered = {message.queue_offset for message in messages}
        until, start = first if whole else last + 1, 0
        while True:
            broker_id = await self._broker_id(mq)
            async with self._database.connect() as conn:
                position = await self._offsets.position(conn, broker_id, queue_id, lock=False)
            await self._log_check.verify(mq, position, messages)
            if position is not None and start == 0:  # later on it is what was applied here
                self._log_check.tell_left_out(broker_id, messages[0], position.next_offset)
            if position is None or max(start, position.next_offset) >= until:
                return
            start = max(start, position.next_offset)
            upto = min(until, start + _WINDOW)
            wanted = await mq.queries.wanted_offsets(self._options.group, self._options.topic, queue_id, start, upto)
            if delivered.issuperset(wanted):
                start = upto
                continue
            missing = await self._fetch(mq, queue_id, wanted, messages[0].receipt)
            await self._require_own(mq, missing, messages[-1])
            if position.next_offset == self._left.get(queue_id):
                await self._require_alone(mq, missing)
            await self._apply(mq, missing, claimed=False)
            start = missing[-1].queue_offset + 1

    async def _doubt(self, mq: AsyncClient, conn: Connection, messages: Sequence[Message]) -> None:
        """Let those messages fail that a consumer with another database may have applied."""
        # The names of the consumers that have, or had, this database.
        names = {self._options.name} | await self._offsets.consumers(conn, await self._broker_id(mq))
        if None in names:
            return  # an earlier release did not write who had this database
        for owner, first, end in await self._by_others(mq, names, messages, finished=False):
            for message in messages:
                if first <= message.queue_offset < end and self._inbox.takes_effect(message):
                    self._runner.suspect([message], RecordedFailure(f"{_IN_DOUBT}{owner}"))

    async def _require_own(self, mq: AsyncClient, missing: Sequence[Message], last: Message) -> None:
        """Raise WrongState if a consumer of another name finished one of these messages.

        That this database had its name before proves nothing, because it may be a copy of the other one's.
        """
        finished = await self._by_others(mq, {self._options.name}, [*missing, last], finished=True)
        if not finished:
            return
        async with self._database.connect() as conn:
            known = set(await self._offsets.states(conn, await self._broker_id(mq), missing))
        known |= await mq.queries.dead_among(self._options.group, self._options.topic, [m.message_id for m in missing])
        unknown = [message.queue_offset for message in missing if message.message_id not in known]
        for owner, first, end in finished:
            if any(first <= offset < end for offset in unknown):
                raise WrongState(
                    f"offsets {first} to {end - 1} of queue {missing[0].queue_id} of topic {self._options.topic} were "
                    f"finished by consumer {owner} and are not in {self._database.describe()}: if {owner} had another "
                    f"database, of which this one may be a copy, set next_offset and first_offset of mqpg_offsets to "
                    f"{end} here; if this one was restored, unpin the queue and let a consumer named {owner} apply "
                    "them here"
                )

    async def _require_alone(self, mq: AsyncClient, missing: Sequence[Message]) -> None:
        """Raise WrongState if a process of this name with another database got one of these messages.

        They are finished, and this process left its offset behind them, so its database was not restored.
        """
        group, topic, queue_id = self._options.group, self._options.topic, missing[0].queue_id
        dead = await mq.queries.dead_among(group, topic, [m.message_id for m in missing], former=True)
        parts = await mq.queries.handled_by_others(group, topic, queue_id, [], missing, finished=False)
        for owner, first, end in parts:
            if owner == self._options.name and any(
                first <= m.queue_offset < end and m.message_id not in dead for m in missing
            ):
                raise WrongState(
                    f"offsets {first} to {end - 1} of queue {queue_id} of topic {topic} were finished by another "
                    f"process of the name {owner}, which has another database than {self._database.describe()}: give "
                    f"each process a name of its own, and set next_offset and first_offset of mqpg_offsets to {end} "
                    "here"
                )

    async def _by_others(
        self, mq: AsyncClient, names: set[str | None], messages: Sequence[Message], *, finished: bool
    ) -> list[tuple[str, int, int]]:
        return await mq.queries.handled_by_others(
            self._options.group, self._options.topic, messages[0].queue_id, [str(one) for one in names], messages,
            finished=finished,
        )  # fmt: skip

    async def _fetch(self, mq: AsyncClient, queue_id: int, wanted: Sequence[int], receipt: str | None) -> list[Message]:
        """Read messages from the log, under the receipt of the delivery that leaves them out."""
        count = min(self._options.max_messages, wanted[-1] - wanted[0] + 1)
        found = await mq.fetch(self._options.topic, queue_id, wanted[0], count)
        missing = [replace(message, receipt=receipt) for message in found if message.queue_offset in set(wanted)]
        logger.warning(
            "%s/%s queue %d: applying offsets %d to %d from the log, because the broker counts them as done",
            self._options.group, self._options.topic, queue_id, missing[0].queue_offset, missing[-1].queue_offset,
        )  # fmt: skip
        return missing

    async def _apply(self, mq: AsyncClient, messages: Sequence[Message], *, claimed: bool) -> DeliveryResult:
        """Apply the messages at the local offset and behind it.

        The result has failures of earlier deliveries too.
        """
        info = await mq.info()
        async with self._database.transaction() as conn:
            position = await self._offsets.position(conn, info.broker_id, messages[0].queue_id, lock=True)
            if position is None:
                position = await self._offsets.begin(conn, messages[0], info)
            fresh = [m for m in messages if m.queue_offset >= position.next_offset]
            old: list[Failure] = []
            if fresh:
                again = not position.realigned
                fresh = await self._recognised.leave_out(conn, info.broker_id, fresh, only_sent_again=again)
            if len(fresh) < len(messages) or not claimed:
                old, fresh = await self._sort_out(mq, conn, messages, fresh, claimed)
            if fresh and claimed and fresh[0].attempt > 1:
                await self._doubt(mq, conn, fresh)
            result = await self._run(mq, conn, fresh)
            if result.failures and not claimed:
                # There is no claim from which to nack it, so it has to be applied here, in its
                # place.
                raise result.failures[0].error
            blocker = result.blocker
            behind = [m for m in messages if blocker is None or m.queue_offset < blocker.queue_offset]
            with self._in_reach(result.called if claimed else []):
                for failure in result.failures:
                    if failure.message is not blocker:
                        await self._offsets.defer(conn, info.broker_id, failure.message, failure.reason)
                if behind and behind[-1].queue_offset >= position.next_offset:
                    await self._offsets.move(conn, behind[-1], position, info)
            await self._commit(conn, result.applied if claimed else [])
        if claimed and behind:
            self._left[behind[-1].queue_id] = max(position.next_offset, behind[-1].queue_offset + 1)
        result.failures = old + result.failures
        return result

    async def _sort_out(
        self, mq: AsyncClient, conn: Connection, messages: Sequence[Message], fresh: list[Message], claimed: bool
    ) -> tuple[list[Failure], list[Message]]:
        """Which messages of a redelivery have to be nacked, and which of a gap to be applied."""
        broker_id = await self._broker_id(mq)
        states = await self._offsets.states(conn, broker_id, messages)
        deferred = {message_id: reason for message_id, (state, reason) in states.items() if state == "deferred"}
        if claimed:
            new = {m.message_id for m in fresh}
            old = [m for m in messages if m.message_id in deferred and m.message_id not in new]
            return [Failure(m, RecordedFailure(deferred[m.message_id] or "")) for m in old], fresh
        # In a gap: a message that became a dead letter, because its claim was lost too often, may
        # be redriven later.
        left = [m for m in fresh if m.message_id not in states]
        ids = [m.message_id for m in left]
        dead = await mq.queries.dead_among(self._options.group, self._options.topic, ids)
        for message in left:
            if message.message_id in dead:
                await self._offsets.defer(conn, broker_id, message, "dead letter of the broker")
        return [], [m for m in left if m.message_id not in dead]

    async def _apply_retries(self, mq: AsyncClient, messages: Sequence[Message]) -> DeliveryResult:
        """Apply a delivery of the retry lane, under its inbox rows."""
        broker_id = await self._broker_id(mq)
        async with self._database.transaction() as conn:
            states = await self._offsets.states(conn, broker_id, messages)
            for message in await self._never_applied(mq, conn, [m for m in messages if m.message_id not in states]):
                await self._offsets.defer(conn, broker_id, message, "redriven")
                states[message.message_id] = ("deferred", None)
            due = [m for m in messages if _may_be_applied(*states.get(m.message_id, ("", None)))]
            strange = [
                m
                for m in messages
                if m not in due
                and states.get(m.message_id, ("",))[0] != "applied"
                and not await self._journal.has(conn, m.message_id, broker_id)
            ]
            result = await self._run(mq, conn, due)
            failed = {failure.message.message_id for failure in result.failures}
            with self._in_reach(result.called):
                await self._offsets.mark_applied(conn, broker_id, [m for m in due if m.message_id not in failed])
            await self._commit(conn, result.applied)
        for message in strange:
            _, reason = states.get(message.message_id, ("", None))
            result.failures.append(Failure(message, RecordedFailure(reason or _NEVER_DEFERRED)))
        return result

    async def _never_applied(self, mq: AsyncClient, conn: Connection, strange: Sequence[Message]) -> list[Message]:
        """The messages without an inbox row that certainly have no effect yet.

        This database has not come to their offset, and no consumer of another name has handled them.
        Or it has the PREPARE of their COMMIT, or they expired before anybody read them.
        """
        if not strange:
            return []
        broker_id = await self._broker_id(mq)
        places = await mq.queries.places(
            self._options.group, self._options.topic, [message.message_id for message in strange]
        )
        found: list[Message] = []
        for message in strange:
            queue_id, offset, unread = places.get(message.message_id, (0, None, False))
            position = await self._offsets.position(conn, broker_id, queue_id, lock=True)
            ahead = False
            if position is not None and offset is not None and offset >= position.next_offset:
                place = [replace(message, queue_id=queue_id, queue_offset=offset)]
                others = [
                    await self._by_others(mq, {self._options.name}, place, finished=done) for done in (False, True)
                ]
                ahead = not any(others)
            if ahead or (unread and message.attempt == 1) or await self._inbox.holds(message, conn):
                found.append(message)
        # Another worker may have written a row before it unlocked the position.
        states = await self._offsets.states(conn, broker_id, found)
        return [message for message in found if message.message_id not in states]

    async def _run(self, mq: AsyncClient, conn: Connection, messages: Sequence[Message]) -> DeliveryResult:
        ask: AskOnFailure = partial(mq.queries.on_failure, self._options.group, self._options.topic)
        after = partial(self._after, await self._broker_id(mq))
        return await self._runner.run(conn, messages, after=after, ask_on_failure=ask)

    async def _broker_id(self, mq: AsyncClient) -> str:
        return (await mq.info()).broker_id

    @contextmanager
    def _in_reach(self, called: Sequence[Message]) -> Generator[None]:
        """Write rows of this module behind the handlers of these messages, one of which may have hidden the tables.

        They were in reach before the handlers, so one has set another role or search_path if they no longer are.
        """
        try:
            yield
        except SQLAlchemyError as error:
            if called and is_out_of_reach(error):
                self._runner.suspect(called, error)
                raise IterationLost from error
            raise

    async def _commit(self, conn: Connection, applied: Sequence[Message]) -> None:
        """Commit. What the database refuses, the handlers of these messages have caused."""
        try:
            await conn.commit()
        except SQLAlchemyError as error:
            if is_answer(error):
                # SQLite's transaction is still open. SQLAlchemy assumes that it has ended, and
                # would put the connection back into the pool like that.
                await run_sync(conn, lambda sync: sync.connection.rollback())
            self._runner.blame(applied, error)
            raise

    async def _after(
        self, broker_id: str, conn: Connection, messages: Sequence[Message], replies: Sequence[Reply]
    ) -> None:
        if self._options.journal:
            await self._journal.write(conn, messages, broker_id)


def _may_be_applied(state: str, reason: str | None) -> bool:
    return state == "deferred" and not (reason or "").startswith(_IN_DOUBT)
