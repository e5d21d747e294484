# Generated from mqpg/_async/posting.py by tools/async_to_sync.py: change that file.
"""postMessage: the message first, the business in a callback, and the reverse flow that asks for its result.

Forward: 1-3 the message is stored, not delivered; 4 the callback does the business; 5-6 its result is sent, and the
message delivered or dropped. Reverse: the broker hands out messages whose result never came, and `check` says what
became of the business, again and again until it is known. The business may be anywhere, behind an API too; where it is
in a database of one's own, TransactionalProducer needs no `check`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mqpg._sync._io import Event, Handled, wait_for
from mqpg._sync.brokers import Brokers
from mqpg._sync.client import Client
from mqpg._sync.decisions import decide, rollback_half
from mqpg.errors import ConfigurationError, ConnectionFailed, Error, InvalidArgument
from mqpg.message import HalfCheck, Interval, Outcome, Result

__all__ = ["PostProducer", "Posted"]

logger = logging.getLogger("mqpg")


@dataclass(frozen=True, slots=True)
class Posted:
    """What a `post` came to. outcome is None where the broker does not know yet: WAIT, or it could not be reached."""

    handle: str
    result: Result
    outcome: Outcome | None


class PostProducer:
    """Sends messages by the result of a business action: success, failure or wait.

    `mq` is the broker, or several; `group` a producer group with checker due_checks (or function, which then
    answers instead of `check`). `check(half)` is the reverse flow: it returns the Result of the business that a
    message stands for, WAIT wherever it is not sure. May be shared by threads.
    """

    def __init__(
        self,
        mq: Client | Brokers,
        *,
        group: str,
        check: Callable[[HalfCheck], Handled] | None = None,
    ) -> None:
        self.brokers = Brokers.around(mq)
        self.group = group
        self._check = check

    def post(
        self,
        topic: str,
        payload: Any,
        callback: Callable[[str], Handled],
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
    ) -> Posted:
        """Store the message, call `callback(handle)`, and send its Result.

        The business should keep the handle: then the reverse flow knows for sure which message it is about.

        Where the message cannot be stored that error is raised and the callback never called. Where the callback
        raises, or returns no Result, the business may have happened or not: the message waits for the reverse
        flow, and the error goes on. Raises what `prepare` raises, InvalidArgument, and
        ConfigurationError where a ledger would be asked about the group.
        """
        mq = self.brokers.pick(key)
        mq._require_checker(self.group, "due_checks", "function")
        handle = store(mq, self.group, topic, payload, key, tag, headers, delay)
        try:
            result = _result(callback(handle))
        except BaseException:
            logger.warning("%s: result of the business unknown, the reverse flow asks for it", handle)
            raise
        return Posted(handle, result, _tell(mq, handle, result))

    def answer(self, max_messages: int = 100, lease: Interval = 30.0) -> int:
        """One pass of the reverse flow: ask `check` about overdue messages; returns how many it was asked about.

        An answer that does not arrive, or a check that raises, is asked for again. Raises ConfigurationError
        without `check`, ConnectionFailed when no broker answers.
        """
        if self._check is None:
            raise ConfigurationError(f"producer group {self.group}: no check was given to answer with")
        asked, failures = 0, []
        for seat in self.brokers.seats:
            try:
                mq = seat.client()
                halves = mq.due_checks(self.group, max_messages, lease)
            except ConnectionFailed as error:
                seat.failed(error)
                failures.append(error)
                continue
            seat.worked()
            for half in halves:
                self._answer(mq, half)
            asked += len(halves)
        if len(failures) == len(self.brokers.seats):
            raise failures[0]
        return asked

    def run_answers(self, stop: Event, interval: float = 5.0) -> None:
        """`answer` every `interval` seconds until `stop` is set, through restarts of the brokers."""
        while not stop.is_set():
            try:
                while self.answer() and not stop.is_set():
                    pass
            except ConfigurationError:
                raise
            except Error as error:
                logger.warning("reverse flow of producer group %s failed, it goes on: %s", self.group, error)
            wait_for(stop, interval)

    def _answer(self, mq: Client, half: HalfCheck) -> None:
        assert self._check is not None
        try:
            result = _result(self._check(half))
            if result is Result.WAIT:  # not counted as a check
                mq.check_wait(half.handle)
            else:
                _tell(mq, half.handle, result)
        except Exception as error:
            logger.warning("reverse flow of %s: no answer, it is asked again: %s", half.handle, error)


def store(
    mq: Client,
    group: str,
    topic: str,
    payload: Any,
    key: str | None,
    tag: str | None,
    headers: Any,
    delay: Interval | None,
) -> str:
    """Steps 1 to 3. Stored once, however often it is repeated, and at one broker only.

    A second one would be asked about too, and the business found done.
    """
    options = {"key": key, "tag": tag, "headers": headers, "delay": delay}
    return mq.prepare(topic, payload, group, dedup_id=uuid4().hex, **options)


def _tell(mq: Client, handle: str, result: Result) -> Outcome | None:
    if result is Result.SUCCESS:
        return decide(mq, handle, None)
    return rollback_half(mq, handle) if result is Result.FAILURE else None


def _result(value: object) -> Result:
    try:
        return Result(str(value))
    except ValueError:
        raise InvalidArgument(f"the result of a business is success, failure or wait, not {value!r}") from None
