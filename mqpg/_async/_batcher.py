"""Lanes, in which calls that are made at the same time travel together.

mqpg/_sync/_lanes.py is the synchronous half, also written by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

from mqpg.connection.travelling import CROWDED, take_batch

__all__ = ["Lanes", "Run"]

# What answers a batch: for each given call, in its order, what its caller gets.
Run = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]
_Waiting = deque[tuple[Any, int, asyncio.Future[Any]]]


class Lanes:
    """One batch of a lane is under way at a time, and what comes meanwhile is the next batch.

    A call enters a lane that is idle, and then leaves it. It joins a lane that is busy. Where calls
    have just travelled together, it joins an idle lane too: those that were answered together make
    their next calls one after the other, and the first of them must not go alone.

    Args:
        linger: How many seconds the first call of a batch waits for others. 0: it does not wait,
            so calls only travel together while the batch before them is under way.
    """

    def __init__(self, linger: float) -> None:
        self._linger = linger
        self._lanes: dict[Hashable, _Waiting] = {}  # those that are busy
        self._tasks: set[asyncio.Task[None]] = set()
        self._crowded_until = 0.0

    def enter(self, key: Hashable) -> bool:
        """Whether the lane was idle and now belongs to the caller, who has to leave it."""
        if key in self._lanes or self._linger or time.monotonic() < self._crowded_until:
            return False
        self._lanes[key] = deque()
        return True

    def leave(self, key: Hashable, run: Run) -> None:
        """Let those leave that have joined the lane meanwhile."""
        if self._lanes[key]:
            self._start(key, run)
        else:
            del self._lanes[key]

    async def join(self, key: Hashable, given: Any, size: int, run: Run) -> Any:
        """Travel with the next batch, and return what `run` answers for this call.

        A call that is cancelled before its batch begins is left out. Afterwards its batch is
        carried out without it, so that its neighbours lose nothing.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting = self._lanes.get(key)
        if waiting is None:
            waiting = self._lanes[key] = deque()
            self._start(key, run)
        waiting.append((given, size, future))
        return await future

    def _start(self, key: Hashable, run: Run) -> None:
        # A task of its own, because the cancellation of one caller must not reach the others.
        task = asyncio.ensure_future(self._drive(key, run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drive(self, key: Hashable, run: Run) -> None:
        waiting = self._lanes[key]
        try:
            # With 0 those that were answered at the same moment can make their next calls.
            await asyncio.sleep(self._linger)
            while batch := take_batch(waiting, lambda call: call[1], lambda call: not call[2].done()):
                await _answer(batch, run)
                if len(batch) > 1:
                    self._crowded_until = time.monotonic() + CROWDED
                await asyncio.sleep(self._linger)
        finally:
            del self._lanes[key]
            for _, _, future in waiting:  # the loop is being closed
                future.cancel()


async def _answer(batch: list[tuple[Any, int, asyncio.Future[Any]]], run: Run) -> None:
    try:
        answers = await run([given for given, _, _ in batch])
    except Exception as error:
        answers = [error] * len(batch)
    except BaseException:
        for _, _, future in batch:
            future.cancel()
        raise
    for (_, _, future), answer in zip(batch, answers, strict=True):
        if not future.done():
            future.set_result(answer)
