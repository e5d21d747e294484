"""Handlers that return before their work is done."""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from mqpg.values.errors import ConfigurationError

__all__ = ["is_async", "require_finished"]


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether the handler is a coroutine function.

    Raises ConfigurationError for a generator function, whose body would never run.
    """
    while isinstance(handler, functools.partial):
        handler = handler.func
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
    return isinstance(result, (map, filter, zip, enumerate)) or type(result).__module__ == "itertools"


def _close(results: Iterable[Any]) -> None:
    for one in results:
        if inspect.iscoroutine(one):
            one.close()  # so that Python does not warn
