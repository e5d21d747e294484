"""Topics that get more queues."""

from tests.support.broker import Session

__all__ = ["MOVED", "settle"]

# A key that moves to the second queue when a topic of one queue gets it.
MOVED = "select min(k::text) from generate_series(1, 100) as k where mqpg._queue_of(k::text, 2) = 1"


def settle(mq: Session, *, rounds: int = 3) -> None:
    """Let the workers find out what the older queues have."""
    for _ in range(rounds):
        mq.call("_open_queues")
        mq.append()
