"""Pauses after failures in a row."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["Backoff"]


@dataclass
class Backoff:
    """Pauses after failures in a row: exponential, with jitter."""

    first: float = 0.05  # the longest first pause, in seconds
    most: float = 2.0  # the longest pause, in seconds
    # By which part of itself a pause may be shorter, 0 to 1, so that many processes do not try again at the same moment
    jitter: float = 0.3
    _failures: int = field(default=0, init=False)

    def next(self) -> float:
        """Count one more failure, and say how many seconds to wait."""
        self._failures += 1
        pause = min(self.most, self.first * 2.0 ** min(self._failures - 1, 30))
        return float(pause * random.uniform(1.0 - self.jitter, 1.0))

    def reset(self) -> None:
        """Begin again with the first pause."""
        self._failures = 0
