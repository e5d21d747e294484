"""A lock in the file system, which ends with the process that holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from mqpg.values.errors import ConfigurationError

__all__ = ["file_lock"]


@contextlib.contextmanager
def file_lock(path: Path, option: str, taken: str) -> Iterator[None]:
    """Hold a lock until the block ends. The file stays there.

    Args:
        option: The option of the command line that it belongs to, for messages.
        taken: What to say if another process holds the lock.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{option}: {path} cannot be written: {error}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(f"{option}: {taken}") from error
        yield
    finally:
        os.close(handle)
