"""Lanes, in which calls made at the same time travel together: see mqpg/_async/_batcher.py."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any

from mqpg.connection.travelling import CROWDED, take_batch
from mqpg.values.errors import OutcomeUnknown

__all__ = ["Lanes", "Run"]

# What answers a batch: for each given call, in its order, what its caller gets.
Run = Callable[[Sequence[Any]], Sequence[Any]]

# Seconds in which threads that were answered at the same moment make their next calls.
GATHER = 0.0001

_INTERRUPTED = "outcome unknown, the thread that made this call for several was interrupted"


class _Call:
    """A call that waits in a lane: for its answer, or for its turn to run the next batch."""

    __slots__ = ("answer", "given", "leads", "size", "woken")

    def __init__(self, given: Any, size: int) -> None:
        self.given, self.size = given, size
        self.answer: Any = None
        self.leads = False
        self.woken = threading.Lock()
        self.woken.acquire()


class Lanes:
    """One batch of a lane is under way at a time, and what comes meanwhile is the next batch.

    A call enters a lane that is idle, and then leaves it. It joins a lane that is busy, or one that
    is idle where calls have just travelled together. The thread that waited longest runs the next
    batch for all.

    Args:
        linger: How many seconds the first call of a batch waits for others. 0: it does not wait,
            so calls only travel together while the batch before them is under way.
    """

    def __init__(self, linger: float) -> None:
        self._linger = linger
        self._lanes: dict[Hashable, deque[_Call]] = {}  # those that are busy
        self._lock = threading.Lock()
        self._crowded_until = 0.0

    def enter(self, key: Hashable) -> bool:
        """Whether the lane was idle and now belongs to the caller, who has to leave it."""
        with self._lock:
            if key in self._lanes or self._linger or time.monotonic() < self._crowded_until:
                return False
            self._lanes[key] = deque()
            return True

    def leave(self, key: Hashable, run: Run) -> None:
        """Let those go that have joined the lane meanwhile."""
        with self._lock:
            self._pass_on(key)

    def join(self, key: Hashable, given: Any, size: int, run: Run) -> Any:
        """Travel with the next batch, and return what `run` answers for this call."""
        call = _Call(given, size)
        with self._lock:
            waiting = self._lanes.get(key)
            if waiting is None:
                waiting = self._lanes[key] = deque()
                call.leads = True
            waiting.append(call)
        try:
            if not call.leads:
                call.woken.acquire()
            if call.leads:
                time.sleep(self._linger or GATHER)
        except BaseException:  # such as KeyboardInterrupt
            self._withdraw(key, call)
            raise
        if call.leads:
            self._lead(key, run)
        return call.answer

    def _lead(self, key: Hashable, run: Run) -> None:
        with self._lock:
            batch = take_batch(self._lanes[key], attrgetter("size"))
        # An interruption, such as KeyboardInterrupt, is for this thread alone.
        answers: Sequence[Any] = [OutcomeUnknown(_INTERRUPTED) for _ in batch]
        try:
            answers = run([call.given for call in batch])
        except Exception as error:
            answers = [error] * len(batch)
        finally:
            with self._lock:
                self._pass_on(key)
                if len(batch) > 1:
                    self._crowded_until = time.monotonic() + CROWDED
            for call, answer in zip(batch, answers, strict=True):
                call.answer = answer
                call.leads = False
                call.woken.release()

    def _pass_on(self, key: Hashable) -> None:
        waiting = self._lanes[key]
        if waiting:
            waiting[0].leads = True
            waiting[0].woken.release()
        else:
            del self._lanes[key]

    def _withdraw(self, key: Hashable, call: _Call) -> None:
        with self._lock:
            waiting = self._lanes.get(key, deque())
            if call in waiting:  # its batch has not begun
                waiting.remove(call)
                if call.leads:
                    self._pass_on(key)
