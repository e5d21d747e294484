"""A small model of the queue: what must be where after any sequence of calls.

It knows nothing of batches, ticks or snapshots. Offsets are checked against what the real queue says, so
the model only states which messages are there, in which order a key's messages come, and who holds what.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Half", "Held", "Model"]


@dataclass
class Half:
    message_id: int
    key: str | None
    decision: str | None = None  # committed | rolled_back
    payload: int = 0


@dataclass
class Held:
    """A receipt and what it still covers."""

    ids: list[int]
    offsets: dict[int, int]  # message id -> offset
    queue_id: int


@dataclass
class Model:
    payloads: dict[int, int] = field(default_factory=dict)  # committed messages, in the order of commitment
    keys: dict[int, str | None] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)  # committed, oldest first
    waiting: set[int] = field(default_factory=set)  # committed and not appended yet
    halves: dict[str, Half] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    nacked: dict[int, int] = field(default_factory=dict)  # message id -> attempts so far, to come again
    done: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)

    def committed(self, message_id: int, key: str | None, payload: int) -> None:
        self.payloads[message_id] = payload
        self.keys[message_id] = key
        self.order.append(message_id)
        self.waiting.add(message_id)

    def appended(self) -> int:
        """All that waits gets an offset; returns how many."""
        moved, self.waiting = len(self.waiting), set()
        return moved

    def visible(self) -> set[int]:
        return set(self.order) - self.waiting

    def decide(self, handle: str, decision: str, payload: int | None) -> str:
        """The outcome that the broker must give; the first decision stands."""
        half = self.halves[handle]
        if half.decision is not None:
            return f"already_{half.decision}"
        half.decision = decision
        if decision == "committed":
            self.committed(half.message_id, half.key, half.payload if payload is None else payload)
        return decision

    def settle(self, receipt: str, ids: list[int]) -> None:
        held = self.held[receipt]
        held.ids = [i for i in held.ids if i not in ids]
        if not held.ids:
            del self.held[receipt]
