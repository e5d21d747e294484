"""Request and reply."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg import errors
from tests.support.consuming import drain, running
from tests.support.killing import die_at, killed
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database


@pytest.fixture
def appending(mq: mqpg.Client, dsn: str) -> Any:
    """Run an appender as `mqpg worker` does."""
    mq.create_topic("sums", queues=2)
    stop = threading.Event()

    def work() -> None:
        with mqpg.connect(dsn) as own:
            while not stop.wait(0.02):
                own.append()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join()


def add(message: mqpg.Message) -> Any:
    return {"sum": sum(message.payload)}


@pytest.mark.usefixtures("appending")
@pytest.mark.parametrize("kind", ["broker", "database", "external"])
def test_what_a_handler_returns_is_the_reply(mq: mqpg.Client, kind: str, tmp_path: Any) -> None:
    options: dict[str, Any] = {"broker": {}, "external": {"effect": "external"}}.get(kind, {})
    if kind == "database":
        options = {"database": f"sqlite:///{tmp_path}/own.db", "consumer": "one"}
    consumer = mqpg.consumer("sums", group="g", **options)(add)
    with running(consumer, mq):
        reply = mq.request("sums", [1, 2, 3], timeout=20, headers={"from": "test"})
        assert reply.payload == {"sum": 6}
        mq.send("sums", [1])  # no request, so there is no reply
        again = mq.request("sums", [4], timeout=20, correlation_id="mine")
    assert again.payload == {"sum": 4}
    # It is known by its name and not asked again: no broker is there to answer.
    assert mq.request("sums", [4], timeout=20, correlation_id="mine").message_id == again.message_id
    consumer.close()


@pytest.mark.usefixtures("appending")
def test_reply_by_hand_once(mq: mqpg.Client) -> None:
    mq.subscribe("g", "sums")
    asked: list[Any] = []
    thread = threading.Thread(target=lambda: asked.append(mq.request("sums", [1], timeout=20)))
    thread.start()
    (request,) = mq.receive("g", "sums", wait=20)
    first = mq.reply(request, "one", headers={"by": "hand"})
    assert mq.reply(request, "two") == first
    mq.ack(request)
    thread.join(20)
    assert (asked[0].payload, asked[0].headers["by"]) == ("one", "hand")
    mq.send("sums", [1])
    (plain,) = mq.receive("g", "sums", wait=20)
    with pytest.raises(errors.InvalidArgument, match="is no request"):
        mq.reply(plain, "x")


@pytest.mark.usefixtures("appending")
def test_an_unknown_reply_topic_is_found_out_before_sending(mq: mqpg.Client) -> None:
    mq.subscribe("g", "sums")
    with pytest.raises(errors.UnknownTopic, match="nosuch"):
        mq.request("sums", [1], reply_topic="nosuch", timeout=0.3)
    mq.send("sums", [2])
    (message,) = mq.receive("g", "sums", wait=20)
    assert message.payload == [2]


@pytest.mark.parametrize("kind", ["broker", "database", "external"])
def test_a_request_that_cannot_be_replied_to_stops_no_consumer(
    mq: mqpg.Client, db: psycopg.Connection[Any], kind: str, tmp_path: Path
) -> None:
    """A requester can name a reply topic that does not exist, or end and drop it."""
    mq.create_topic("sums", queues=1)
    options: dict[str, Any] = {"broker": {}, "external": {"effect": "external"}}.get(kind, {})
    if kind == "database":
        options = {"database": f"sqlite:///{tmp_path}/own.db", "consumer": "one"}
    seen: list[Any] = []

    @mqpg.consumer("sums", group="g", max_attempts=1, **options)
    def reply(message: mqpg.Message) -> Any:
        seen.append(message.payload)
        return "\ud800" if message.payload == ["surrogate"] else message.payload

    mq.subscribe("g", "sums", reply.options.wanted_mode, max_attempts=1)
    mq.create_topic("answers")
    for number, (topic, payload) in enumerate([("nosuch", [1]), ("answers", ["surrogate"]), ("answers", [2])]):
        mq.send("sums", payload, headers={"mqpg-reply-to": topic, "mqpg-correlation-id": f"c{number}"})
    mq.append()
    with running(reply, mq):
        eventually(lambda: (mq.append(), mq.reply_of("c2", reply_topic="answers"))[1])
        eventually(lambda: db.execute("select sum(lag)::int from mqpg.subscription_lag").fetchone() == (0,))
    reply.close()
    assert seen[-1] == [2]
    # C2 replies after its commit: the effect remains, and only the reply is lost.
    assert len(mq.dead_letters("g", "sums")) == (0 if kind == "database" else 2)


@pytest.mark.usefixtures("appending")
def test_nobody_replies(mq: mqpg.Client) -> None:
    with pytest.raises(errors.NoReply, match=r"within 0\.3 s") as caught:
        mq.request("sums", [1], timeout=0.3)
    assert mq.reply_of(caught.value.correlation_id) is None
    late = mqpg.consumer("sums", group="g")(add)
    assert late.step(mq) in (0, 1)
    drain(late, mq)
    reply = mq.reply_of(caught.value.correlation_id)
    assert reply is not None
    assert reply.payload == {"sum": 1}


@pytest.mark.chaos
@pytest.mark.usefixtures("appending")
def test_a_replier_killed_before_its_commit_replies_once(
    mq: mqpg.Client, dsn: str, db: psycopg.Connection[Any]
) -> None:
    """The reply is in the transaction of the effect, so a consumer that died sent no reply."""
    mq.subscribe("readers", "sums")
    asked: list[Any] = []
    thread = threading.Thread(target=lambda: asked.append(mq.request("sums", [1, 1], timeout=60)))
    thread.start()
    while not mq.receive("readers", "sums", wait=5, lease=1):
        pass
    db.execute("select mqpg.seek('readers', 'sums', 'earliest')")
    killed("tests.integration.test_requests", dsn)
    assert asked == []
    with running(mqpg.consumer("sums", group="readers")(add), mq):
        thread.join(60)
    assert asked[0].payload == {"sum": 2}
    assert db.execute("select sum(next_offset) from mqpg.queue_depth where topic = 'mqpg-replies'").fetchone() == (1,)


def main(dsn: str) -> None:
    die_at("mqpg._sync.client.request_reply:RequestReply.reply", "after")
    reply = mqpg.consumer("sums", group="readers", lease=1)(add)
    with mqpg.connect(dsn) as mq:
        while not reply.step(mq):
            pass


async def test_asynchronously(amq: mqpg.AsyncClient) -> None:
    await amq.create_topic("sums")

    @mqpg.consumer("sums", group="g", effect="external")
    async def reply(message: mqpg.Message) -> int:
        return sum(message.payload)

    assert isinstance(reply, mqpg.AsyncConsumer)
    stop = asyncio.Event()

    async def append() -> None:
        while not stop.is_set():
            await amq.append()
            await asyncio.sleep(0.02)

    work = asyncio.gather(append(), reply.run(amq, stop))
    answers = await asyncio.gather(*(amq.request("sums", [n, n], timeout=20) for n in range(3)))
    stop.set()
    await work
    assert [answer.payload for answer in answers] == [0, 2, 4]
