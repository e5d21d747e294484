"""Priority as a set of topics (docs/sql.md): the more urgent topic is asked first, and the others are not starved."""

from typing import Any

from tests.support.broker import Session

LEVELS = ("jobs.high", "jobs.normal", "jobs.low")


def take(mq: Session, turn: int, max_messages: int = 2) -> list[Any]:
    """Receive once by priority. Each tenth turn begins at the other end."""
    levels = LEVELS if turn % 10 else tuple(reversed(LEVELS))
    for topic in levels:
        if rows := mq.receive(topic, max_messages=max_messages):
            mq.ack(rows[0].receipt)
            return rows
    return []


def test_urgent_messages_go_first_and_the_rest_is_not_starved(mq: Session) -> None:
    for topic in LEVELS:
        mq.subscribed(topic)
    for topic in reversed(LEVELS):
        mq.send_batch(topic, [f'"{topic}"'] * 20)
    mq.append()
    order = [m.payload for turn in range(1, 40) for m in take(mq, turn)]
    assert len(order) == 60
    assert order[:18] == ["jobs.high"] * 18
    assert order[18:20] == ["jobs.low"] * 2
    normal = [i for i, level in enumerate(order) if level == "jobs.normal"]
    assert max(i for i, level in enumerate(order) if level == "jobs.high") < min(normal)
