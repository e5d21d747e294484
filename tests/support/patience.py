"""Patience with Spark, which waits 10 s for a Python process to start: too short for a busy machine."""

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException

__all__ = ["patient"]

T = TypeVar("T")


def patient(work: Callable[[], T]) -> T:
    """Do it again if a Python process took longer. A stream continues from its checkpoint, as after any failure."""
    for _ in range(9):
        try:
            return work()
        except PySparkException as error:
            if "failed to connect back" not in str(error) and "waiting for the Python worker" not in str(error):
                raise
    return work()
