"""JSON that PostgreSQL stores and Python does not decode hides nothing else."""

import json
from typing import Any

import pytest

import mqpg
from mqpg import errors
from tests.support.in_process import Run

pytestmark = pytest.mark.shared_database

DIGITS = "1" * 5000
DEPTH = "[" * 3000 + "]" * 3000
ODD = {"digits": DIGITS}
try:
    json.loads(DEPTH)  # Python 3.13 decodes any depth that PostgreSQL stores
except RecursionError:
    ODD["depth"] = DEPTH
SURROGATE = '"\\ud800"'


def poisoned(mq: mqpg.Client) -> list[int]:
    """Dead letters of all kinds, the oldest first."""
    mq.create_topic("odd", queues=1)
    mq.subscribe("g", "odd")
    payloads = [*ODD.values(), SURROGATE, '{"ok": 1}']
    ids = [mq.send("odd", mqpg.Json(text), key="k", headers=mqpg.Json(f'{{"n": {DIGITS}}}')) for text in payloads]
    mq.append()
    delivery = mq.receive("g", "odd")  # it decodes nothing
    assert [message.raw for message in delivery] == payloads
    delivery.nack("odd", final=True)
    return ids


def test_a_list_shows_all_dead_letters(mq: mqpg.Client) -> None:
    ids = poisoned(mq)
    letters = list(reversed(mq.dead_letters("g", "odd")))
    assert [letter.message_id for letter in letters] == ids
    assert [letter.raw for letter in letters[: len(ODD)]] == list(ODD.values())
    for letter in letters[: len(ODD)]:
        with pytest.raises(errors.Undecodable, match="payload is JSON that Python does not decode"):
            _ = letter.payload
        with pytest.raises(errors.Undecodable, match="headers is JSON"):
            _ = letter.headers
        assert letter.history[0]["attempt"] == 1
    assert letters[-2].payload == "\ud800"
    assert letters[-1].payload == {"ok": 1}


def test_finding_and_tracing_decode_on_access(mq: mqpg.Client) -> None:
    ids = poisoned(mq)
    found = mq.find_by_key("odd", "k")
    assert [one.message_id for one in found] == ids
    assert found[-1].payload == {"ok": 1}
    with pytest.raises(errors.Undecodable):
        _ = found[0].payload


def test_consumers_bury_what_they_cannot_decode_and_continue(mq: mqpg.Client) -> None:
    mq.create_topic("odd", queues=1)
    seen: list[Any] = []

    @mqpg.consumer("odd", group="g", max_attempts=1)
    def handle(message: mqpg.Message, conn: Any) -> None:
        seen.append(message.headers or message.payload)

    handle.step(mq)
    bad = mq.send("odd", 1, headers=mqpg.Json(f'{{"n": {DIGITS}}}'))
    mq.send("odd", 2)
    for _ in range(5):
        mq.append()
        handle.step(mq)
    assert seen == [2]
    assert [letter.message_id for letter in mq.dead_letters("g", "odd")] == [bad]


def test_the_command_prints_the_text(mq: mqpg.Client, run: Run) -> None:
    poisoned(mq)
    command = ("dead-letters", "list", "g", "odd")
    listed = json.loads(run(*command, "--json")[1])
    assert [one["payload"] for one in reversed(listed)] == [*ODD.values(), "\ud800", {"ok": 1}]
    table = run(*command)[1]
    assert '"\\ud800"' in table
    assert '{"ok": 1}' in table


@pytest.mark.parametrize(
    ("value", "name"),
    [("a\ud800", "key"), (object(), "tag"), (10**5000, "dedup_id"), ([["a"], [1]], "key"), ("\x00", "key")],
    ids=["surrogate", "object", "digits", "list", "nul"],
)
def test_a_value_that_cannot_be_sent_is_named(mq: mqpg.Client, orders: str, value: Any, name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=f"^{name} "):
        mq.send(orders, 1, **{name: value})
    with mq.transaction() as conn, pytest.raises(errors.InvalidArgument, match=f"^{name} "):
        mq.send(orders, 1, conn=conn, **{name: value})


def test_an_integer_that_python_does_not_print_is_named(mq: mqpg.Client, orders: str) -> None:
    many: Any = 10**5000
    for name in ("reply_topic", "correlation_id"):
        with pytest.raises(errors.InvalidArgument, match=f"^{name} must be text"):
            mq.request(orders, 1, timeout=0, **{name: many})
    with pytest.raises(errors.UnknownTopic, match="a value of type int"):
        mq.queries.queue_count(many)
    with pytest.raises(errors.UnknownSubscription, match="a value of type int"):
        mq.queries.require_subscription(many, many)
    with pytest.raises(errors.InvalidArgument, match=r"^producer_group must be text"):
        mq.queries.require_checker(many, "ledger", "due_checks")
    with pytest.raises(errors.ConfigurationError, match=r"^mode must be one of .* not a value of type int"):
        mqpg.consumer("t", group="g", mode=many)


def test_a_payload_that_no_json_holds_is_named(mq: mqpg.Client, orders: str) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for payload in (deep, {1, 2}, float("nan"), 10**5000):
        with pytest.raises(errors.InvalidArgument, match=r"^payload must be an object that JSON can hold"):
            mq.send(orders, payload)
    with pytest.raises(errors.InvalidArgument, match=r"^payloads must be a list"):
        mq.send_batch(orders, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [["topic", "depth", "\udcff"], ["find", "x\udcff", "y"], ["topic", "create", "a\udc80b"]],
    ids=["depth", "find", "create"],
)
def test_an_argument_that_is_no_text_is_one_line(run: Run, arguments: list[str]) -> None:
    status, _, err = run(*arguments)
    assert status in (1, 2)
    assert err.startswith("mqpg: ")
    assert err.count("\n") == 1
