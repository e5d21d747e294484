"""How long the appender pauses between two calls of `mqpg.append`."""

from __future__ import annotations

__all__ = ["AppendPace"]

# From this many messages a call on, its fixed cost of half a millisecond is worth sharing.
_MANY = 100
# Below this many, the processor has time for calls that find little, and messages come at once.
_FEW = 10
# So many empty calls in a row are made quickly after the last message.
_QUICK = 20
# Seconds: the first pause after the last message, its growth while idle, and the longest one while busy.
_LEAST, _GROWTH, _BUSY = 0.001, 1.5, 0.05


class AppendPace:
    """Pauses between calls of `mqpg.append`, in seconds.

    After a call that moved messages, the pause is twice as long as the call took, or eight times as long if
    the call moved a hundred messages or more, but at most 50 ms. Calls without a pause would take the
    processor from producers and consumers. After a call that moved few messages, and for a while after the
    last message, the pause is one millisecond, because the next message must not wait. While there is no
    work, the pause grows from there to `most`.
    """

    def __init__(self, most: float = 0.05) -> None:
        self._most = max(_LEAST, most)
        self._next = _LEAST
        self._quick = 0  # quick calls that are left

    def after(self, moved: int, took: float = 0.0) -> float:
        """The pause after a call that moved `moved` messages in `took` seconds."""
        if moved:
            self._next, self._quick = _LEAST, _QUICK
            return min(_LEAST if moved < _FEW else _BUSY, (8 if moved >= _MANY else 2) * took)
        if self._quick:
            self._quick -= 1
            return _LEAST
        pause, self._next = self._next, min(self._most, self._next * _GROWTH)
        return pause
