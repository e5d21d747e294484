"""What mqpg should reach, as ratios within one run.

A target that is missed is reported, not a failure.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """The least ratio of two rates: `side` in `cell`, over `base_side` in `base_cell`."""

    what: str
    cell: str
    base_cell: str
    at_least: float
    side: str = "mqpg"
    base_side: str = "pgmq"


TARGETS = (
    Target("send one by one, 16 clients: mqpg / pgmq", "send-1", "send-1", 1.3),
    Target("send in thousands: mqpg / pgmq", "send-1000", "send-1000", 1.6),
    Target("receive and ack in hundreds: mqpg / pgmq read and delete", "receive-100", "receive-100", 2.5),
    Target(
        "receive and ack in hundreds, sent one by one: mqpg / pgmq", "receive-100-singly", "receive-100-singly", 2.0
    ),
    Target("receive and ack in thousands: mqpg / pgmq read and delete", "receive-1000", "receive-1000", 6.0),
    Target("half and commit, 16 clients: mqpg / two-queue MNS scheme on pgmq", "half-1", "half-1", 1.5),
    Target("half and commit in hundreds: mqpg / two-queue MNS scheme on pgmq", "half-100", "half-100", 1.5),
    Target("end to end with xmin held: mqpg held / mqpg clean", "e2e-held", "e2e", 0.85, base_side="mqpg"),
)
