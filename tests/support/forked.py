"""Work in a child that this process forks, and what came of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["Child"]


class Child:
    """A child that does some work at once: `Child(work).result()`."""

    def __init__(self, work: Callable[[], Any], seconds: int = 40) -> None:
        self._results, results = multiprocessing.Pipe(duplex=False)
        self._pid = os.fork()
        if self._pid:
            results.close()
            return
        signal.alarm(seconds)
        try:
            results.send((work(), ""))
        except BaseException as error:
            results.send((None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
        finally:
            os._exit(0)

    def result(self) -> Any:
        """What the work returned. Raises AssertionError for its error, and where it did not end."""
        try:
            found, error = self._results.recv()
        except EOFError:
            found, error = None, "the child did not end"
        finally:
            os.waitpid(self._pid, 0)
        assert not error, error
        return found
