"""What a process that was made by fork does with the connections of its parent: nothing.

A connection is a socket and a session of the server. Two processes that use one read each other's answers, and the
first of them to close it ends it for both. In the child each object that holds connections therefore forgets them
without closing them, and makes its own when it needs them. The sockets of the child lead nowhere.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import methodcaller
from typing import Any, Generic, NoReturn, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["OfThisProcess", "abandon", "ends_children", "in_child", "sever"]

logger = logging.getLogger("mqpg")

K = TypeVar("K")
V = TypeVar("V")

_known: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def in_child(holder: Any, forget: Callable[[Any], None] = methodcaller("after_fork")) -> None:
    """Call `forget` with an object in each child of this process, before anything else happens there."""
    _known[holder] = forget


def abandon(*inherited: object) -> None:
    """Keep objects of the parent for ever, because their destructors would close what the parent uses."""
    for one in inherited:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def sever(connection: Any) -> None:
    """Let the child's copy of a driver's socket lead nowhere, so that the session ends with the parent.

    Otherwise the server keeps it, with its transaction, until the last process that has a copy ends.
    """
    with suppress(Exception):  # it is closed, or has no socket
        if hasattr(connection, "fileno"):  # psycopg
            descriptor = connection.fileno()
        else:  # asyncpg, pymysql
            transport = getattr(connection, "_transport", None)
            descriptor = (transport.get_extra_info("socket") if transport else connection._sock).fileno()
        with open(os.devnull, "r+b", buffering=0) as nowhere:
            os.dup2(nowhere.fileno(), descriptor, inheritable=False)


@contextmanager
def ends_children() -> Iterator[None]:
    """End a child that comes out of the block, which calls a handler, whether that returned or raised an error.

    A child that a handler has made would go on in the transaction, and with the messages, of its parent.
    """
    parent = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != parent:
            _end()


def _end() -> NoReturn:
    error, status = sys.exception(), 0
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        status = error.code or 0
    elif error is not None:
        logger.error("a child that a handler has made failed", exc_info=error)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)


class OfThisProcess(Generic[K, V]):
    """What the threads of a process share, by key. A child has none of them, because it has none of the threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[K, V] = {}
        in_child(self)

    def after_fork(self) -> None:
        """Forget them. A thread of the parent may have held the lock."""
        abandon(self.known)
        self.lock, self.known = threading.Lock(), {}


def _after_fork() -> None:
    for holder, forget in list(_known.items()):
        try:
            forget(holder)
        except Exception:
            logger.exception("after fork: %r", holder)


os.register_at_fork(after_in_child=_after_fork)
