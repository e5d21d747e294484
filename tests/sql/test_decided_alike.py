"""One rule in three functions: `_decide`, `_decide_batch` and `_decide_run` do the same to the same half messages.

The test makes equal half messages at random and decides them one by one and together. pytest-randomly
prints the seed, which repeats them.
"""

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.support.broker import Session, seconds

_TOPICS = ["plain", "relayed", "summed"]
# What a decision wrote: the decision, its final payload or the message of a relay topic, and its delay.
_WRITTEN = """
    select o.message_id, o.op::text, o.decided_by, o.reason, o.queue_id, o.visible_at - o.at as wait,
        l.kind::text, l.queue_id as body_queue, l.n, l.keys, l.tags, l.headers::text as headers,
        l.payloads::text as payloads, l.checksum is not null as summed,
        d.n as delayed, d.visible_at - d.written_at as due, d.deliver_id = o.deliver_id as elsewhere
    from mqpg.op_log o
    left join mqpg.commit_log l on l.batch_id = o.deliver_id / 1024
    left join mqpg.delayed d on d.first_id in (o.message_id, o.deliver_id)
    where o.message_id = any(%s) and o.stage = 0
"""
_PREPARED = """
    select * from mqpg.prepare_batch(%s, %s::text[], 'pg', %s::text[], %s::text[], %s::jsonb[], delay => %s)
"""


@dataclass
class Story:
    """Half messages of one record batch, and a call that decides some of them."""

    topic: str = field(default_factory=lambda: random.choice(_TOPICS))
    n: int = field(default_factory=lambda: random.randint(2, 6))
    keyed: bool = field(default_factory=lambda: random.random() < 0.3)
    delayed: bool = field(default_factory=lambda: random.random() < 0.2)
    before: dict[int, str] = field(default_factory=dict)
    op: str = field(default_factory=lambda: random.choice(["commit", "commit", "rollback"]))
    places: list[int] = field(init=False)
    payloads: list[str | None] | None = None

    def __post_init__(self) -> None:
        self.places = list(range(self.n))
        if random.random() < 0.4:
            self.before = {i: random.choice(["commit", "rollback"]) for i in random.sample(self.places, 1)}
        if random.random() < 0.5:
            self.places = random.choices(self.places, k=random.randint(1, 2 * self.n))
        if self.op == "commit" and random.random() < 0.4:
            self.payloads = [random.choice([None, json.dumps({"final": i})]) for i in range(len(self.places))]

    def prepare(self, mq: Session) -> list[str]:
        """The handles of a new record batch, some of which are decided already."""
        said = [json.dumps(i) for i in range(self.n)]
        keys = said if self.keyed else None
        delay = seconds(3) if self.delayed else None
        rows = mq.rows(_PREPARED, self.topic, said, keys, said, [f'{{"h": {i}}}' for i in said], delay)
        handles = [row[0] for row in rows]
        for place, op in self.before.items():
            mq.value(op, handles[place])
        return handles

    def one_by_one(self, mq: Session, handles: list[str]) -> list[str]:
        payloads = self.payloads or [None] * len(self.places)
        given = [[] if payload is None else [payload] for payload in payloads]
        return [mq.value(self.op, handles[place], *own) for place, own in zip(self.places, given, strict=True)]

    def together(self, mq: Session, handles: list[str], *others: str) -> list[str]:
        """The outcomes, without those of `others`, which only keep the call from deciding all at once."""
        given = [] if self.payloads is None else [self.payloads + [None] * len(others)]
        rows = mq.call(f"{self.op}_batch", [handles[place] for place in self.places] + list(others), *given)
        return [row.outcome for row in rows][: len(self.places)]


def written(mq: Session, handles: list[str]) -> dict[int, dict[str, Any]]:
    """What stands about each half message, by its place."""
    ids = {int(handle.split(".")[2]): place for place, handle in enumerate(handles)}
    found = {ids[row.message_id]: row._asdict() | {"message_id": None} for row in mq.rows(_WRITTEN, list(ids))}
    for place, row in found.items():
        if row["headers"] is not None:
            row["headers"] = row["headers"].replace(handles[place], "handle")
    return found


def test_one_by_one_and_together_decide_alike(mq: Session) -> None:
    for topic in _TOPICS:
        mq.call("create_topic", topic, queues=1, kind="relay" if topic == "relayed" else "normal")
    mq.call("alter_topic", "summed", checksums=True)
    for _ in range(30):
        story = Story()
        alone, run, batch = (story.prepare(mq) for _ in range(3))
        expected = story.one_by_one(mq, alone)
        assert story.together(mq, run) == expected, story
        assert story.together(mq, batch, "of nothing") == expected, story
        assert written(mq, alone) == written(mq, run) == written(mq, batch), story
        assert set(written(mq, alone)) == {*story.before, *story.places}
