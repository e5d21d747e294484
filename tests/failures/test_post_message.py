"""The middleware's postMessage: what each side can see of a failure, and the reverse flow.

The steps are 1 send, 2 stored pending, 3 answered, 4 business, 5 its result sent, 6 dropped or
deliverable. In the reverse flow the middleware asks for the result of what is pending. The app
answers success, failure or wait, and the middleware acts on it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text

import mqpg
from mqpg import errors
from tests.failures.actors import SALE, do_business, look_up
from tests.failures.stage import IMPATIENT, Stage
from tests.support.waiting import eventually

POSTING = "mqpg._sync.producer.post_message"


@pytest.fixture
def app(stage: Stage) -> Stage:
    """An app of the producer group `posted`, which the reverse flow asks."""
    stage.mq.create_producer_group("posted", check_after="10 ms")
    return stage


def reverse(stage: Stage) -> None:
    """Run the reverse flow until nothing is pending."""
    producer = mqpg.protocols.PostProducer(stage.mq, group="posted", check=lambda half: look_up(stage.engine, half))

    def settled() -> bool:
        stage.overdue_now()
        producer.answer()
        return stage.pending() == []

    eventually(settled, interval=0.05)


# what the app sees


def test_1_4_1_app_dies_before_it_sent(app: Stage) -> None:
    """Nothing is done and nothing is stored, so there is nothing to repair."""
    app.killed("post", "before", "mqpg:Client.prepare", id=1)
    assert app.sql.scalar("select count(*) from mqpg.commit_log") == 0
    app.exactly_once([])


@pytest.mark.parametrize("stored", [True, False])
def test_1_4_2_app_gets_no_answer_to_its_send(app: Stage, stored: bool) -> None:
    """The app treats that as a failure and does not begin the business.

    A message that was stored is dropped.
    """

    def business(handle: str) -> str:
        raise AssertionError("the business must not begin")

    with pytest.raises(errors.UnknownTopic):
        mqpg.protocols.PostProducer(app.mq, group="posted").post("nowhere", {"id": 1}, business)
    with app.through_proxy(**IMPATIENT) as (cut, mq):
        cut.cut_at(b"mqpg.prepare", forward=stored, stay_down=True)
        with pytest.raises(errors.ConnectionFailed):
            mqpg.protocols.PostProducer(mq, group="posted").post("orders", {"id": 1}, business)
    if stored:
        eventually(app.pending)
    reverse(app)
    assert app.sql.scalar("select count(*) from mqpg.op_log where op = 'b'") == int(stored)
    app.exactly_once([])


def test_1_4_3_app_dies_between_the_answer_and_the_business(app: Stage) -> None:
    app.killed("post", "after", "mqpg:Client.prepare", id=1)
    assert len(app.pending()) == 1
    reverse(app)
    app.exactly_once([])


# what the middleware sees


STATES = ["not done", "rolled back", "done"]


@pytest.mark.parametrize("state", STATES)
def test_1_4_4_result_of_the_business_never_arrives(app: Stage, state: str) -> None:
    """The message is pending, and the business has one of three results.

    The reverse flow finds out which.
    """
    match state:
        case "not done":
            app.killed("post", "before", "tests.failures.actors:do_business", id=1)
        case "rolled back":
            app.killed("post", "after", "sqlalchemy:Connection.execute", id=1)
        case "done":
            app.killed("post", "before", f"{POSTING}:_send_result", id=1)
    assert app.delivered() == []
    assert len(app.pending()) == 1
    reverse(app)
    app.exactly_once([1] if state == "done" else [])


@contextmanager
def full_disk(stage: Stage) -> Iterator[None]:
    """Make the broker unable to store a decision."""
    stage.sql.execute(
        "create function public.full_disk() returns trigger language plpgsql as $$ begin"
        " raise exception using errcode = '53100', message = 'no space left on device'; end $$"
    )
    stage.sql.execute(
        "create trigger full_disk before insert on mqpg.op_log for each row execute function public.full_disk()"
    )
    try:
        yield
    finally:
        stage.sql.execute("drop function public.full_disk cascade")


@pytest.mark.parametrize("state", STATES)
def test_1_4_5_result_arrives_and_cannot_be_stored(app: Stage, state: str) -> None:
    """The decision cannot be stored, so the message is still pending.

    The reverse flow ends it by the facts.
    """

    done: list[int] = []

    def business(handle: str) -> str:
        if state == "not done":
            return "failure"
        with app.engine.connect() as conn:
            conn.execute(SALE, {"id": 1})
            done.extend(conn.scalars(text("select id from sale")))
            if state == "rolled back":
                conn.rollback()
                return "failure"
            conn.commit()
        return "success"

    producer = mqpg.protocols.PostProducer(app.mq, group="posted")
    with full_disk(app):
        if state == "done":
            with pytest.raises(errors.DatabaseError, match="no space left"):
                producer.post("orders", {"id": 1}, business)
        else:
            assert producer.post("orders", {"id": 1}, business).outcome is None
    assert done == ([] if state == "not done" else [1])
    (half,) = app.pending()
    assert app.decision(half.handle) is None
    reverse(app)
    assert app.decision(half.handle) == ("c" if state == "done" else "b", "producer")
    app.exactly_once([1] if state == "done" else [])


# results, and the reverse flow


@pytest.mark.parametrize(
    ("result", "outcome"), [("success", "committed"), ("failure", "rolled_back"), ("wait", None), ("maybe", None)]
)
def test_1_4_6_each_result_means_what_it_says(app: Stage, result: str, outcome: str | None) -> None:
    """Success delivers, failure drops, and wait leaves the message to the reverse flow.

    Any other value is an error.
    """
    producer = mqpg.protocols.PostProducer(app.mq, group="posted")
    if result == "maybe":
        with pytest.raises(errors.InvalidArgument, match="success, failure or wait, not 'maybe'"):
            producer.post("orders", {"id": 1}, lambda handle: result)
    else:
        posted = producer.post("orders", {"id": 1}, lambda handle: result)
        assert (posted.result, posted.outcome) == (result, outcome)
    assert len(app.pending()) == int(outcome is None)
    assert app.delivered() == ([1] if result == "success" else [])


def test_1_4_7_wait_is_asked_again_until_it_is_known(app: Stage) -> None:
    answers = iter(["wait", "wait", "success"])
    producer = mqpg.protocols.PostProducer(app.mq, group="posted", check=lambda half: next(answers))
    handle = producer.post("orders", {"id": 1}, lambda handle: "wait").handle
    for _ in range(3):
        app.overdue_now()
        eventually(lambda: producer.answer() == 1)
        app.overdue_now()
    assert app.events(handle) == ["asked", "waited", "asked", "waited", "asked"]
    assert app.decision(handle) == ("c", "producer")
    assert app.delivered() == [1]


@pytest.mark.parametrize("done", [True, False])
def test_1_4_8_last_step_of_the_reverse_flow_fails(app: Stage, done: bool) -> None:
    """All steps before it only read, so the timer asks again and repeats the whole flow."""
    handle = mqpg.protocols.PostProducer(app.mq, group="posted").post("orders", {"id": 1}, lambda handle: "wait").handle
    if done:
        do_business(app.shop_url, 1)
    producer = mqpg.protocols.PostProducer(app.mq, group="posted", check=lambda half: look_up(app.engine, half))
    with full_disk(app):
        eventually(lambda: producer.answer() == 1)
        assert app.decision(handle) is None
    reverse(app)
    assert app.events(handle) == ["asked", "asked"]
    app.exactly_once([1] if done else [])


@pytest.mark.parametrize(
    ("when", "step"),
    [
        ("before", "tests.failures.actors:look_up"),
        ("before", f"{POSTING}:_send_result"),
        ("after", f"{POSTING}:_send_result"),
    ],
    ids=["asked", "looked up", "answered"],
)
@pytest.mark.parametrize("done", [True, False])
def test_1_4_9_app_dies_while_it_answers_the_reverse_flow(app: Stage, when: str, step: str, done: bool) -> None:
    mqpg.protocols.PostProducer(app.mq, group="posted").post("orders", {"id": 1}, lambda handle: "wait")
    if done:
        do_business(app.shop_url, 1)
    app.killed("answer", when, step)
    reverse(app)
    app.exactly_once([1] if done else [])


def test_1_4_10_callback_that_raises_is_not_taken_for_a_failure(app: Stage) -> None:
    """The callback may have raised after the business was done, so the message waits for the
    reverse flow.
    """

    def business(handle: str) -> str:
        do_business(app.shop_url, 1)
        raise TimeoutError("no answer from the bank")

    with pytest.raises(TimeoutError):
        mqpg.protocols.PostProducer(app.mq, group="posted").post("orders", {"id": 1}, business)
    assert len(app.pending()) == 1
    reverse(app)
    app.exactly_once([1])
