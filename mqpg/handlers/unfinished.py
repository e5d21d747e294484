"""Handlers that return before their work is done."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager
from typing import Any

from mqpg.values.errors import ConfigurationError

__all__ = ["is_async", "require_finished"]

# Of each kind of work beside the handler: its class, and what it answers as long as it is under way.
_AT_WORK = (
    ("threading", "Thread", "is_alive", True),
    ("subprocess", "Popen", "poll", None),
    ("multiprocessing.process", "BaseProcess", "is_alive", True),
    ("multiprocessing.pool", "ApplyResult", "ready", False),
)


def is_async(handler: Any) -> bool:
    """Whether the handler is a coroutine function.

    Raises ConfigurationError for what does no work when it is called: a generator function or a class.
    """
    while isinstance(handler, (functools.partial, staticmethod)):
        handler = handler.func if isinstance(handler, functools.partial) else handler.__func__
    if inspect.isclass(handler) or not callable(handler):
        what = f"the class {handler.__name__}" if inspect.isclass(handler) else f"a {type(handler).__name__}"
        raise ConfigurationError(f"a handler must be a function or an object that can be called, not {what}")
    called = (handler, type(handler).__call__)
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in called):
        name = getattr(handler, "__name__", repr(handler))
        raise ConfigurationError(f"{name} is a generator function, which does nothing when it is called: use no yield")
    return any(inspect.iscoroutinefunction(one) for one in called)


def require_finished(result: Any) -> None:
    """Raise TypeError for the result of a handler that is work still to be done, or a collection of such work."""
    if result is None:
        return
    for one in _parts(result):
        if inspect.isawaitable(one) or isinstance(one, Future):
            _close(_parts(result))
            raise TypeError(
                f"the handler returned a {type(result).__name__} with a {type(one).__name__}: wait for each of them"
            )
    if inspect.isroutine(result) or isinstance(result, functools.partial):
        raise TypeError(f"the handler returned a {type(result).__name__} that was not called")
    if _is_at_work(result):
        raise TypeError(f"the handler returned a {type(result).__name__} that is still at work: wait for it")
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or _is_lazy(result):
        raise TypeError(f"the handler returned a {type(result).__name__}, whose body did not run: use a loop")
    if inspect.isawaitable(result):
        _close([result])
        raise TypeError(
            f"the handler returned a {type(result).__name__}, which a synchronous consumer does not await: "
            "make the handler async def, or do its work before it returns"
        )


def _parts(result: Any) -> Iterable[Any]:
    if isinstance(result, dict):
        return result.values()
    return result if isinstance(result, (list, tuple, set, frozenset, deque)) else ()


def _is_lazy(result: Any) -> bool:
    lazy = (map, filter, zip, enumerate, _GeneratorContextManager, _AsyncGeneratorContextManager)
    return isinstance(result, lazy) or type(result).__module__ == "itertools"


def _is_at_work(result: Any) -> bool:
    """Whether it is a thread, a process or a call in a pool of processes that has not ended."""
    return any(
        isinstance(result, getattr(sys.modules.get(module), name, ())) and getattr(result, ask)() is answer
        for module, name, ask, answer in _AT_WORK
    )


def _close(results: Iterable[Any]) -> None:
    for one in results:
        if inspect.iscoroutine(one):
            one.close()  # so that Python does not warn
