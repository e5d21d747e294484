"""Keeping what Spark's JVM writes away from the user's terminal."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

__all__ = ["captured_stderr"]


@contextlib.contextmanager
def captured_stderr() -> Iterator[IO[bytes]]:
    """Send what other programs write to stderr into a file, until the block ends.

    The JVM inherits this process's stderr. When it fails it writes stack traces there, and py4j and Spark log
    theirs. A user needs one line. What Python writes to `sys.stderr` is still shown, and its logs are shown
    if the command runs with -v.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    shown = io.TextIOWrapper(os.fdopen(terminal, "wb"), errors="backslashreplace", line_buffering=True)
    before = sys.stderr
    handlers = [one for one in logging.getLogger().handlers if getattr(one, "stream", None) is before]
    disabled = logging.root.manager.disable
    if not logging.root.isEnabledFor(logging.INFO):
        logging.disable(logging.CRITICAL)
    with tempfile.TemporaryFile(prefix="mqpg-audit-") as captured:
        os.dup2(captured.fileno(), 2)
        sys.stderr = shown
        for handler in handlers:
            handler.setStream(shown)  # type: ignore[attr-defined]
        try:
            yield captured
        finally:
            logging.disable(disabled)
            shown.flush()
            os.dup2(terminal, 2)
            sys.stderr = before
            for handler in handlers:
                handler.setStream(before)  # type: ignore[attr-defined]
            shown.close()
