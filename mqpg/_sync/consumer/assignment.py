# Generated from mqpg/_async/consumer/assignment.py by tools/async_to_sync.py: change that file.
"""Which queue a consumer asks next, and which delivery it acknowledges with that."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from functools import partial

from mqpg._sync.client.client import Client
from mqpg._sync.client.execute import Caller
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.choices import Mode
from mqpg.values.errors import ConfigurationError, Error, ReceiptError, UnknownSubscription
from mqpg.values.messages import RETRY_LANE, Message

__all__ = ["QueueAssignment"]

logger = logging.getLogger("mqpg")

_LOOK = 10.0  # seconds between two looks for queues that were added


class QueueAssignment:
    """The queues that one consumer reads.

    By default these are all queues of the topic, and the server chooses the next one. A consumer
    that names its queues asks them and the retry lane in turn. In the modes pinned and broadcast
    members of one name take over from each other, because a restarted process must find its queues
    again. Workers of one process share a name, so each of them has queues of its own and never
    meets another one on a queue.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options
        named = options.queues
        self._turns: list[deque[int | None]] = [deque([None] if named is None else [*named, RETRY_LANE])]
        self._subscribed = False
        self.noted = False
        self._first = 0  # with which of them a call that reads for no worker begins
        self._done: dict[int, str] = {}  # by worker; a call that reads for no worker counts as the first
        self._queues: int | None = None  # how many are divided among the workers; None: they are not
        self._next_look = 0.0
        self.mode: Mode = options.wanted_mode

    def receive(
        self, mq: Client, worker: int | None = None, *, most: int | None = None, conn: Caller | None = None
    ) -> list[Message]:
        """The next delivery, of the queue whose turn it is; empty if no queue has a message.

        It has `most` messages at most, or as many as the options say. It acknowledges what
        `ack_later` noted. Without a worker it may be of any queue.
        """
        options, whose = self._options, worker or 0
        for turn in self._turns_of(worker):
            queue_id = turn[0]
            turn.rotate(-1)
            call = partial(
                mq.receive,
                options.group,
                options.topic,
                most or options.max_messages,
                options.lease,
                consumer=options.name,
                queue_id=queue_id,
                conn=conn,
            )
            try:
                messages = call(ack=self._done.get(whose))
            except ReceiptError as error:
                self._report_lost(error)
                messages = call()
            self._done.pop(whose, None)
            if messages:
                return list(messages)
        self._take_added_queues(mq)
        return []

    def _turns_of(self, worker: int | None) -> list[deque[int | None]]:
        """The turns of a worker, or of all workers, each as often as it has queues."""
        if worker is not None:
            turn = self._turns[worker % len(self._turns)]
            return [turn] * len(turn)
        self._first = (self._first + 1) % len(self._turns)
        return [turn for turn in self._turns[self._first :] + self._turns[: self._first] for _ in turn]

    def ack_later(self, worker: int | None, receipt: str) -> None:
        """Let the worker's next `receive` acknowledge a whole delivery: one call instead of two."""
        self._done[worker or 0] = receipt

    def ack_now(self, mq: Client, worker: int) -> None:
        """Acknowledge what no further `receive` of the worker will."""
        receipt = self._done.pop(worker, None)
        try:
            if receipt is not None:
                mq.ack_delivery(receipt)
        except Error as error:
            self._report_lost(error)

    def _report_lost(self, error: Error) -> None:
        # The lease ended and another consumer has taken over, or the broker does not answer.
        logger.warning("%s/%s: %s", self._options.group, self._options.topic, error)

    def subscribe(self, mq: Client) -> None:
        """Create the subscription where it is missing, once, and refuse one of another mode.

        Raises UnknownSubscription, ConfigurationError.
        """
        if self._subscribed:
            return
        self.mode = self._ensure_subscription(mq)
        if self.mode in ("pinned", "broadcast") and self._options.concurrency > 1:
            self._divide_queues(mq)
        self._subscribed = True

    def note_journal(self, mq: Client, *, kept_before: bool = False) -> None:
        """Tell the broker, once, whether there is a journal from the next delivery on.

        `kept_before`: the journal has rows already. The attribute `noted` says that the broker knows.
        """
        if not self.noted:
            options = self._options
            self.noted = mq.queries.note_journal(
                options.group, options.topic, options.name, kept=options.journal, kept_before=kept_before
            )

    def _ensure_subscription(self, mq: Client) -> Mode:
        options = self._options
        mode = mq.queries.subscription_mode(options.group, options.topic)
        if mode is None:
            if not options.subscribe:
                raise UnknownSubscription(
                    f"group {options.group} is not subscribed to topic {options.topic}, and subscribe is False: "
                    f"run mqpg subscription add {options.group} {options.topic}"
                )
            self._create_subscription(mq)
            return options.wanted_mode
        if mode != options.wanted_mode and (options.mode is not None or options.database is not None):
            raise ConfigurationError(
                f"group {options.group} reads topic {options.topic} in mode {mode}, "
                f"but this consumer needs mode {options.wanted_mode}"
            )
        if options.subscribe:
            self._report_differences(mq)
        return mode

    def _report_differences(self, mq: Client) -> None:
        """Say what the subscription has otherwise than the decorator says, which is for a new one only."""
        options = self._options
        with suppress(Error):  # receiving says what is wrong
            found = mq.queries.subscription_differences(options.group, options.topic, **options.of_subscription)
            if found:
                logger.warning(
                    "%s/%s: the subscription has other options than the decorator, which mqpg subscription sync "
                    "changes: %s",
                    options.group,
                    options.topic,
                    "; ".join(f"{name} is {has}, not {wanted}" for name, has, wanted in found),
                )

    def _create_subscription(self, mq: Client) -> None:
        options = self._options
        mq.subscribe(options.group, options.topic, options.wanted_mode, options.start, **options.of_subscription)

    def _divide_queues(self, mq: Client) -> None:
        named = self._options.queues
        all_queues = range(mq.queries.queue_count(self._options.topic)) if named is None else named
        queues = [*all_queues, RETRY_LANE]
        workers = min(self._options.concurrency, len(queues))
        self._turns = [deque(queues[worker::workers]) for worker in range(workers)]
        self._queues = None if named is not None else len(all_queues)

    def _take_added_queues(self, mq: Client) -> None:
        """Now and then look whether the topic has got more queues. Those divided already stay where they are."""
        if self._queues is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK
        queues = mq.queries.queue_count(self._options.topic)
        for queue in range(self._queues, queues):
            self._turns[queue % len(self._turns)].append(queue)
        self._queues = queues
