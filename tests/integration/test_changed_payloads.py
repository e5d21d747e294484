"""A handler may change what it reads of a message. Each call gets the message as it was sent."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from tests.support.proven import prove

pytestmark = pytest.mark.shared_database

OPTIONS: dict[str, dict[str, Any]] = {"C1": {}, "C1 shared": {"mode": "shared"}, "C2": {"consumer": "one"}}


@pytest.mark.parametrize("batch", [False, True], ids=["one by one", "batch"])
@pytest.mark.parametrize("mode", OPTIONS)
def test_a_call_that_was_undone_leaves_nothing_in_the_message(
    mq: mqpg.Client, tmp_path: Path, mode: str, batch: bool
) -> None:
    """The third message fails, so the first two are handled once more, in the same transaction."""
    mq.create_topic("orders", queues=1)
    database = f"sqlite:///{tmp_path / 'own.db'}" if mode == "C2" else None
    seen: list[tuple[int, int, str]] = []

    def handle(given: Any) -> None:
        for message in given if batch else [given]:
            message.payload["total"] += 1
            seen.append((message.payload["id"], message.payload["total"], message.headers.pop("by")))
            if message.payload["id"] == 3:
                raise ValueError

    consumer = mqpg.consumer("orders", group="g", database=database, batch=batch, max_attempts=1, **OPTIONS[mode])(
        handle
    )
    consumer.step(mq)
    if mode == "C1":
        prove(consumer)
    mq.send_batch("orders", [{"id": one, "total": 10} for one in (1, 2, 3)], headers=[{"by": "x"}] * 3)
    mq.append()
    consumer.step(mq)
    consumer.close()
    assert [one[0] for one in seen].count(1) == 2
    assert {one[1:] for one in seen} == {(11, "x")}


def test_a_reply_goes_where_the_request_said(mq: mqpg.Client, db: psycopg.Connection[Any]) -> None:
    mq.create_topic("prices", queues=1)

    @mqpg.consumer("prices", group="g")
    def price(message: mqpg.Message) -> int:
        message.headers.clear()
        return 40

    price.step(mq)
    with pytest.raises(mqpg.errors.NoReply):
        mq.request("prices", {}, timeout=0, correlation_id="one")
    mq.append()
    price.step(mq)
    mq.append()
    found = mq.reply_of("one")
    assert found is not None
    assert found.payload == 40
