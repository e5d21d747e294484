"""The batcher, in which calls wait for the batch before them: see mqpg/_async/_batcher.py."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mqpg.values.errors import OutcomeUnknown

__all__ = ["Batcher", "Run"]

# What answers a batch: for each given call, in its order, what its caller gets.
Run = Callable[[Sequence[Any]], Sequence[Any]]

_MORE = 0.05  # for so many seconds after a batch of several calls more are expected
_GATHER = 0.0001  # seconds in which threads that were answered at the same moment make their next calls

_INTERRUPTED = "outcome unknown, the thread that made this call for several was interrupted"


class _Call:
    """A call that waits: for its answer, or for its turn to run the next batch."""

    __slots__ = ("answer", "given", "runs_next", "size", "woken")

    def __init__(self, given: Any, size: int) -> None:
        self.given, self.size = given, size
        self.answer: Any = None
        self.runs_next = False
        self.woken = threading.Lock()
        self.woken.acquire()


class Batcher:
    """One batch of calls with the same key is under way at a time. What comes meanwhile is the next.

    A call goes alone if none of its key is under way. Otherwise it joins the next batch, for whose first call
    `linger` seconds are waited. Soon after a batch of several calls every call joins one: callers that were
    answered together make their next calls one after the other, and the first of them must not go alone.
    """

    def __init__(self, linger: float, most_calls: int, most_bytes: int) -> None:
        self._linger, self._most_calls, self._most_bytes = linger, most_calls, most_bytes
        self._waiting: dict[Hashable, deque[_Call]] = {}  # for each key of which a call is under way
        self._lock = threading.Lock()
        self._more_until = 0.0

    def go_alone(self, key: Hashable) -> bool:
        """Whether the call goes alone. Its caller has to say when it has ended."""
        with self._lock:
            if key in self._waiting or self._linger or time.monotonic() < self._more_until:
                return False
            self._waiting[key] = deque()
            return True

    def ended(self, key: Hashable, run: Run) -> None:
        """A call that went alone has ended: one that came meanwhile runs the next batch."""
        with self._lock:
            self._pass_on(key)

    def join(self, key: Hashable, given: Any, size: int, run: Run) -> Any:
        """Wait for the next batch, and return what `run` answers for this call, or raise it."""
        call = _Call(given, size)
        with self._lock:
            if key not in self._waiting:
                self._waiting[key] = deque()
                call.runs_next = True
            self._waiting[key].append(call)
        try:
            if not call.runs_next:
                call.woken.acquire()
            if call.runs_next:
                time.sleep(self._linger or _GATHER)
        except BaseException:  # such as KeyboardInterrupt
            self._withdraw(key, call)
            raise
        if call.runs_next:
            self._run_next(key, run)
        if isinstance(call.answer, BaseException):
            raise call.answer
        return call.answer

    def _run_next(self, key: Hashable, run: Run) -> None:
        with self._lock:
            batch = self._take(self._waiting[key])
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
                    self._more_until = time.monotonic() + _MORE
            for call, answer in zip(batch, answers, strict=True):
                call.answer = answer
                call.runs_next = False
                call.woken.release()

    def _take(self, waiting: deque[_Call]) -> list[_Call]:
        batch: list[_Call] = []
        size = 0
        while waiting and len(batch) < self._most_calls and size < self._most_bytes:
            batch.append(waiting.popleft())
            size += batch[-1].size
        return batch

    def _pass_on(self, key: Hashable) -> None:
        waiting = self._waiting[key]
        if waiting:
            waiting[0].runs_next = True
            waiting[0].woken.release()
        else:
            del self._waiting[key]

    def _withdraw(self, key: Hashable, call: _Call) -> None:
        with self._lock:
            waiting = self._waiting.get(key, deque())
            if call in waiting:  # its batch has not begun
                waiting.remove(call)
                if call.runs_next:
                    self._pass_on(key)
