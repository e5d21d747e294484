# Generated from mqpg/_async/client/batching.py by tools/async_to_sync.py: change that file.
"""Batching: calls of one process that are made at the same time become one statement.

Each caller gets its own answer. What fails for one of them is found by making the batch again in
halves, which is safe because a statement that the server refused has changed nothing. After a lost
connection nothing is made again that a single call would not repeat.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import scalar
from mqpg.connection.statements import Statement
from mqpg.values.errors import ConnectionFailed, Error, LockTimeout, OutcomeUnknown

__all__ = ["Batched", "Batching", "Values", "column"]

Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Batched:
    """How calls of one kind are batched.

    Attributes:
        single: The statement of one call.
        first: The same for a call that others may have to wait for. It gives up soon if it has to
            wait for another session.
        together: The statement of several calls. Its last column has the answers.
        collect: The values of `together` for those of several calls.
        repeat: Whether the statements do no harm when they run twice.
        once_each: Calls of one batch that name the same thing in this value. The server answers
            all of them alike, and `again` is what all but the first get instead.
        again: Pairs of an answer and what it is for the later calls.
    """

    single: Statement
    together: Statement
    collect: Callable[[Sequence[Values]], Values]
    repeat: bool
    first: Statement | None = None
    once_each: str | None = None
    again: Mapping[str, str] | None = None


class Batching(BaseClient):
    """What the calls that are batched share."""

    def _batched(self, kind: Batched, same: tuple[Any, ...], values: Values, size: int = 0) -> Any:
        """The answer to one call, which may be in a batch with others of its kind.

        `same` are the values that all calls of a batch have in common, and `size` are the bytes of
        the payload. Calls with the same values are made in the order in which they were issued.
        """
        key = (kind, *same)
        if not self.settings.batching or not _is_hashable(key):
            return scalar(self._rows(kind.single, values, repeat=kind.repeat))
        run, first = partial(self._answers, kind), kind.first or kind.single
        try:
            if not self._batcher.go_alone(key):
                return self._batcher.join(key, values, size, run)
            try:
                return scalar(self._once(first, values, self._seconds(first)))
            except OutcomeUnknown:
                if not kind.repeat:
                    raise
                return scalar(self._again(first, values, self._seconds(first)))
            finally:
                self._batcher.ended(key, run)
        except LockTimeout:
            if kind.first is None:
                raise
        # It has to wait for another session, so it does that outside of the batch.
        return scalar(self._rows(kind.single, values, repeat=kind.repeat))

    def _answers(self, kind: Batched, batch: Sequence[Values]) -> list[Any]:
        """The answer or the error of each call of a batch."""
        try:
            if len(batch) == 1:
                return [scalar(self._rows(kind.first or kind.single, batch[0], repeat=kind.repeat))]
            rows = self._rows(kind.together, kind.collect(batch), repeat=kind.repeat)
            return _spread(kind, batch, [row[-1] for row in rows])
        except ConnectionFailed as error:
            # Not known, or nothing was done: as each call would have been answered alone.
            return [error, *(_copied(error) for _ in batch[1:])]
        except Error as error:
            if len(batch) == 1:
                return [error]
        # The server has rolled the batch back.
        half = len(batch) // 2
        return [*self._answers(kind, batch[:half]), *self._answers(kind, batch[half:])]


def column(batch: Sequence[Values], name: str) -> list[Any] | None:
    """One value of each call as an array. None if all are None."""
    found = [values[name] for values in batch]
    return found if any(one is not None for one in found) else None


def _spread(kind: Batched, batch: Sequence[Values], answers: list[Any]) -> list[Any]:
    if kind.once_each is None or kind.again is None:
        return answers
    seen: set[Any] = set()
    for place, values in enumerate(batch):
        named = values[kind.once_each]
        if named in seen:
            answers[place] = kind.again.get(answers[place], answers[place])
        seen.add(named)
    return answers


def _is_hashable(key: tuple[Any, ...]) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _copied(error: ConnectionFailed) -> ConnectionFailed:
    """The same error for another caller, so that their tracebacks do not mix."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied
