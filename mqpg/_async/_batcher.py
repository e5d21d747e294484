"""The batcher, in which calls wait for the batch before them.

mqpg/_sync/_batcher.py is the synchronous half, also written by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from mqpg._async._acompat import require_loop

__all__ = ["Batcher", "Run"]

# What answers a batch: for each given call, in its order, what its caller gets.
Run = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]

_MORE = 0.05  # for so many seconds after a batch of several calls more are expected


@dataclass(eq=False, slots=True)
class _Call:
    given: Any
    size: int
    answer: asyncio.Future[Any]


class Batcher:
    """One batch of calls with the same key is under way at a time. What comes meanwhile is the next.

    A call goes alone if none of its key is under way. Otherwise it joins the next batch, for whose first call
    `linger` seconds are waited. Soon after a batch of several calls every call joins one: callers that were
    answered together make their next calls one after the other, and the first of them must not go alone.
    """

    def __init__(self, linger: float, most_calls: int, most_bytes: int) -> None:
        self._linger, self._most_calls, self._most_bytes = linger, most_calls, most_bytes
        self._waiting: dict[Hashable, deque[_Call]] = {}  # for each key of which a call is under way
        self._tasks: set[asyncio.Task[None]] = set()
        self._more_until = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None  # that of the first batch

    def go_alone(self, key: Hashable) -> bool:
        """Whether the call goes alone. Its caller has to say when it has ended."""
        if key in self._waiting or self._linger or time.monotonic() < self._more_until:
            return False
        self._waiting[key] = deque()
        return True

    def ended(self, key: Hashable, run: Run) -> None:
        """A call that went alone has ended: begin the batch of those that came meanwhile."""
        if self._waiting[key]:
            self._start(key, run)
        else:
            del self._waiting[key]

    async def join(self, key: Hashable, given: Any, size: int, run: Run) -> Any:
        """Wait for the next batch, and return what `run` answers for this call, or raise it.

        A call that is cancelled before its batch begins is left out. Afterwards its batch is
        carried out without it, so that its neighbours lose nothing.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        require_loop(self._loop)
        call = _Call(given, size, self._loop.create_future())
        if key not in self._waiting:
            self._waiting[key] = deque()
            self._start(key, run)
        self._waiting[key].append(call)
        answer = await call.answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _start(self, key: Hashable, run: Run) -> None:
        # A task of its own, because the cancellation of one caller must not reach the others.
        task = asyncio.ensure_future(self._run_all(key, run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_all(self, key: Hashable, run: Run) -> None:
        waiting = self._waiting[key]
        try:
            # With 0 those that were answered at the same moment can make their next calls.
            await asyncio.sleep(self._linger)
            while batch := self._take(waiting):
                await _answer(batch, run)
                if len(batch) > 1:
                    self._more_until = time.monotonic() + _MORE
                await asyncio.sleep(self._linger)
        finally:
            del self._waiting[key]
            for call in waiting:  # the loop is being closed
                call.answer.cancel()

    def _take(self, waiting: deque[_Call]) -> list[_Call]:
        """The next batch, without cancelled calls."""
        batch: list[_Call] = []
        size = 0
        while waiting and len(batch) < self._most_calls and size < self._most_bytes:
            call = waiting.popleft()
            if not call.answer.done():
                batch.append(call)
                size += call.size
        return batch


async def _answer(batch: list[_Call], run: Run) -> None:
    try:
        answers = await run([call.given for call in batch])
    except Exception as error:
        answers = [error] * len(batch)
    except BaseException:
        for call in batch:
            call.answer.cancel()
        raise
    for call, answer in zip(batch, answers, strict=True):
        if not call.answer.done():
            call.answer.set_result(answer)
