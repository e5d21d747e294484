"""What the process that is tried reports about its handler: calls, errors, threads, effects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from sqlalchemy.engine.default import DefaultDialect

from mqpg.crashtest.audit_hook import AuditHook
from mqpg.crashtest.control import Line
from mqpg.handlers.outcomes import Reject, Retry

__all__ = ["Watch", "watch_other_databases"]


class Watch:
    """Watches a handler or a producer, and reports to the command. `port` is that of the proxy."""

    def __init__(self, line: Line, port: int) -> None:
        self._line = line
        self._main = threading.get_ident()
        self._calls = 0
        self._own_threads: set[int] = set()
        AuditHook(self._outside, self._busy, {port}).start()

    def middleware(self, *, asynchronous: bool) -> Callable[..., Any]:
        """Middleware around each call of the handler."""

        def call(given: Any, proceed: Callable[[], Any]) -> Any:
            before = set(threading.enumerate())
            self._enter()
            try:
                return proceed()
            except Exception as error:
                self._raised(error)
                raise
            finally:
                self._leave(before, [])

        async def call_async(given: Any, proceed: Callable[[], Any]) -> Any:
            before, tasks = set(threading.enumerate()), asyncio.all_tasks()
            self._enter()
            try:
                return await proceed()
            except Exception as error:
                self._raised(error)
                raise
            finally:
                left = [task.get_name() for task in asyncio.all_tasks() - tasks if not task.done()]
                self._leave(before, left)

        return call_async if asynchronous else call

    def produce(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a producer."""
        return self.middleware(asynchronous=False)(None, lambda: function(*arguments))

    def _enter(self) -> None:
        self._calls += 1
        self._own_threads.add(threading.get_ident())
        self._line.ask(handler="enter")

    def _leave(self, before: set[threading.Thread], tasks: list[str]) -> None:
        self._calls -= 1
        # A handler with a time limit is called in a thread of its own, which is this one.
        new = [one for one in threading.enumerate() if one not in before and one is not threading.current_thread()]
        left = [one.name for one in new if one.is_alive() and not one.name.startswith(("mqpg", "pool-", "asyncio"))]
        self._line.ask(handler="leave", left=left + tasks)

    def _raised(self, error: Exception) -> None:
        asked = isinstance(error, (Retry, Reject))
        self._line.ask(raised=f"{type(error).__name__}: {error}".strip(), asked=asked)

    def _busy(self) -> bool:
        """Whether an effect is the handler's: during its call, or in a thread of its own."""
        strange = threading.get_ident() != self._main and not threading.current_thread().name.startswith("mqpg")
        return self._calls > 0 or strange

    def _outside(self, kind: str, name: str, times: int) -> None:
        self._line.ask(outside=[kind, name], times=times)


def watch_other_databases(line: Line) -> None:
    """Report each statement that SQLAlchemy sends to another database than PostgreSQL.

    The command does not answer if the process must die.
    """
    for name in ("do_execute", "do_executemany", "do_execute_no_params", "do_commit", "do_rollback"):
        _wrap(name, line)


def _wrap(name: str, line: Line) -> None:
    original: Callable[..., Any] = getattr(DefaultDialect, name)
    fixed = {"do_commit": "COMMIT", "do_rollback": "ROLLBACK"}.get(name)

    def reported(self: DefaultDialect, *arguments: Any, **keywords: Any) -> Any:
        if self.name == "postgresql":
            return original(self, *arguments, **keywords)
        text = fixed or str(arguments[1])
        ruling = line.ask(statement=text, when="before")
        if ruling.get("refuse"):
            raise self.dbapi.OperationalError("database is locked (made by mqpg crashtest)")  # type: ignore[union-attr]
        result = original(self, *arguments, **keywords)
        line.ask(statement=text, when="after")
        return result

    setattr(DefaultDialect, name, reported)
