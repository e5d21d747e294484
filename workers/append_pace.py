"""How long the appender pauses between two calls of `mqpg.append`."""

from __future__ import annotations

__all__ = ["AppendPace"]

# From this many messages a call on, its fixed cost of half a millisecond is worth sharing.
_MANY = 100
# Below this many, the processor has time for calls that find little, and messages come at once.
_FEW = 10
# So many empty calls in a row are made quickly after the last message.
_LOOKS = 20


class AppendPace:
    """Pauses between calls of `mqpg.append`, in seconds.

    After a call that moved messages, the pause is twice as long as the call took, or eight times as
    long if the call moved a hundred messages or more, but at most `busy`. Calls without a pause
    would take the processor from producers and consumers. After a call that moved few messages,
    and for a while after the last message, the pause is `least`, because the next message must not
    wait. While there is no work, the pause grows from `least` to `most`.

    Args:
        least: The first pause after the last message, in seconds.
        most: The longest pause while there is no work, in seconds; at least `least`.
        growth: The factor between one idle pause and the next.
        busy: The longest pause while there is work, in seconds.
    """

    def __init__(self, least: float = 0.001, most: float = 0.05, growth: float = 1.5, busy: float = 0.05) -> None:
        self._least, self._most, self._growth, self._busy = least, max(least, most), growth, busy
        self._next = least
        self._looks = 0  # quick ones that are left

    def after(self, moved: int, took: float = 0.0) -> float:
        """The pause after a call that moved `moved` messages in `took` seconds."""
        if moved:
            self._next, self._looks = self._least, _LOOKS
            return min(self._least if moved < _FEW else self._busy, (8 if moved >= _MANY else 2) * took)
        if self._looks:
            self._looks -= 1
            return self._least
        pause, self._next = self._next, min(self._most, self._next * self._growth)
        return pause
