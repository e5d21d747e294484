"""Half messages by contract: prepare, decisions and their outcomes, final payloads, check-backs."""

import uuid
from typing import Any

import pytest

from tests.support.broker import Session, make_due, message_id, refused, seconds
from tests.support.waiting import eventually


def outcomes(rows: list[Any]) -> list[str]:
    return [row.outcome for row in rows]


def op_count(mq: Session) -> int:
    return int(mq.scalar("select count(*) from mqpg.op_log"))


# prepare


def test_handle_names_broker_incarnation_message_and_nonce(mq: Session) -> None:
    parts = mq.prepare("one", "1").split(".")
    assert len(parts) == 4
    assert parts[0] == mq.scalar("select broker_id from mqpg.broker")
    assert int(parts[1]) == mq.scalar("select incarnation from mqpg.broker")
    uuid.UUID(hex=parts[3])
    assert parts[3] != mq.prepare("one", "1").split(".")[3]


def test_a_committed_half_is_delivered_under_its_id(mq: Session) -> None:
    handle = mq.prepare("one", '{"a":  1}', key="k", tag="x", headers='{"h": 1}')
    assert mq.commit(handle) == "committed"
    (m,) = mq.delivered("one")
    assert m.message_id == message_id(handle)
    assert (m.key, m.tag, m.headers, m.payload, m.attempt) == ("k", "x", {"h": 1}, {"a": 1}, 1)


def test_prepare_and_commit_in_one_transaction(mq: Session) -> None:
    with mq.transaction():
        assert mq.commit(mq.prepare("one", "1")) == "committed"
    assert [m.payload for m in mq.delivered("one")] == [1]


# outcomes


def test_texts_that_are_no_handle_are_unknown(mq: Session) -> None:
    good = mq.prepare("one", "1").split(".")
    wrong = [
        "",
        "x",
        "a.b.c.d",
        "....",
        "1.2.3",
        "no such handle at all, but rather long",
        ".".join([*good, "5"]),
        ".".join([good[0], good[1], good[2], uuid.uuid4().hex]),
        ".".join([good[0], good[1], good[2], "zz"]),
        ".".join(["otherbroker0", *good[1:]]),
        ".".join([good[0], good[1], str(int(good[2]) + 1), good[3]]),
        ".".join([good[0], good[1], "0" + good[2], good[3]]),
        ".".join([good[0], "0" + good[1], *good[2:]]),
        ".".join([good[0], str(int(good[1]) + 1), *good[2:]]),
        ".".join([good[0], good[1], "-1", good[3]]),
        ".".join([good[0], good[1], "9" * 30, good[3]]),
        ".".join([good[0], "9" * 30, *good[2:]]),
        ".".join(good)[:-1],
        ".".join(good) + " ",
        "x" * 100_000,
    ]
    for text in wrong:
        assert mq.commit(text) == "unknown", text
        assert mq.rollback(text) == "unknown", text
        assert mq.commit(text, "1") == "unknown", text
    assert outcomes(mq.call("commit_batch", wrong)) == ["unknown"] * len(wrong)
    assert outcomes(mq.call("rollback_batch", wrong)) == ["unknown"] * len(wrong)
    assert op_count(mq) == 0
    assert mq.commit(".".join(good)) == "committed"


# final payload


def test_a_final_payload_replaces_the_prepared_one(mq: Session) -> None:
    handle = mq.prepare("one", '{"draft": true}', key="k", tag="x", headers='{"h": 1}')
    assert mq.commit(handle, '{"final" :1}') == "committed"
    (m,) = mq.delivered("one")
    assert m.message_id == message_id(handle)
    assert (m.key, m.tag, m.headers, m.payload) == ("k", "x", {"h": 1}, {"final": 1})
    body = mq.scalar("select payload::text from mqpg.fetch('one', 0, 0)")
    assert body == '{"final" :1}'


def test_final_payload_overloads(mq: Session) -> None:
    for expression in ("""'{"a": 1}'""", """'{"a": 1}'::json""", "jsonb_build_object('a', 1)"):
        handle = mq.prepare("one", "0")
        assert mq.scalar(f"select mqpg.commit(%s, {expression})", handle) == "committed"
    assert [m.payload for m in mq.delivered("one")] == [{"a": 1}] * 3


def test_a_final_payload_over_the_limit_decides_nothing(mq: Session) -> None:
    mq.call("alter_topic", "one", max_payload=100)
    handle = mq.prepare("one", "0")
    with refused("MQ010"):
        mq.commit(handle, '"' + "x" * 200 + '"')
    assert mq.rollback(handle) == "rolled_back"


# batches


@pytest.mark.parametrize("keyed", [True, False])
def test_prepare_batch_gives_handles_in_argument_order(mq: Session, keyed: bool) -> None:
    keys = [f"k{i % 5}" if keyed and i % 3 else None for i in range(50)]
    handles = [r[0] for r in mq.call("prepare_batch", "t", [str(i) for i in range(50)], "pg", keys=keys)]
    assert len(set(handles)) == 50
    assert outcomes(mq.call("commit_batch", handles)) == ["committed"] * 50
    got = {m.message_id: (m.payload, m.key) for m in mq.delivered("t")}
    assert [got[message_id(h)] for h in handles] == list(zip(range(50), keys, strict=True))


def test_commit_batch_answers_in_argument_order(mq: Session) -> None:
    a, b, c, d = (mq.prepare("one", str(i)) for i in range(4))
    mq.commit(b)
    mq.rollback(c)
    given = [d, "nonsense", c, b, a]
    rows = mq.call("commit_batch", given)
    assert [r.handle for r in rows] == given
    assert outcomes(rows) == ["committed", "unknown", "already_rolled_back", "already_committed", "committed"]
    assert sorted(m.payload for m in mq.delivered("one")) == [0, 1, 3]


def test_an_empty_batch_of_decisions_returns_nothing(mq: Session) -> None:
    assert mq.call("commit_batch", []) == []
    assert mq.call("rollback_batch", []) == []
    assert mq.call("prepare_batch", "one", [], "pg") == []


def test_commit_batch_with_payloads_null_keeps_the_prepared_one(mq: Session) -> None:
    handles = [mq.prepare("one", str(i)) for i in range(4)]
    assert outcomes(mq.call("commit_batch", handles, ["10", None, "12", None])) == ["committed"] * 4
    got = mq.delivered("one")
    assert {message_id(h) for h in handles} == {m.message_id for m in got}
    assert [m.payload for m in got] == [10, 1, 12, 3]


def test_commit_batch_stores_final_payloads_only_where_it_decided(mq: Session) -> None:
    a, b, c = (mq.prepare("t", str(i), key=str(i)) for i in range(3))
    mq.rollback(b)
    mq.commit(c)
    rows = mq.call("commit_batch", [a, b, c, "x"], ["10", "11", "12", "13"])
    assert outcomes(rows) == ["committed", "already_rolled_back", "already_committed", "unknown"]
    assert mq.scalar("select sum(n) from mqpg.commit_log where kind = 'f'") == 1
    assert sorted(m.payload for m in mq.delivered("t")) == [2, 10]


def test_large_batches_of_halves(mq: Session) -> None:
    handles = [r[0] for r in mq.call("prepare_batch", "t", ["1"] * 2500, "pg")]
    assert set(outcomes(mq.call("commit_batch", handles))) == {"committed"}
    assert len(mq.delivered("t")) == 2500


# delay


def test_a_delayed_half_with_a_final_payload(mq: Session) -> None:
    handle = mq.prepare("one", "1", delay=seconds(600), key="k")
    mq.commit(handle, "2")
    mq.append()
    assert mq.receive("one") == []
    make_due(mq)
    eventually(mq.append)
    (m,) = mq.receive("one")
    assert (m.message_id, m.payload, m.key) == (message_id(handle), 2, "k")


# producer groups


def test_create_producer_group_again_with_equal_arguments_changes_nothing(mq: Session) -> None:
    mq.call("create_producer_group", "pg")
    with refused("MQ011", "alter_producer_group"):
        mq.call("create_producer_group", "pg", max_checks=3)
