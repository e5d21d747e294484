"""Commands about topics, subscriptions, dead letters, half messages and single messages, in this process."""

import json
from typing import Any

import psycopg

import mqpg
from tests.support.in_process import Run


def ok(run: Run, *arguments: str) -> str:
    status, out, err = run(*arguments)
    assert (status, err) == (0, ""), err
    return out


def listed(run: Run, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ok(run, *arguments, "--json"))
    return found


def send(db: psycopg.Connection[Any], *payloads: str) -> list[int]:
    found = [row[0] for row in db.execute("select mqpg.send_batch('orders', %s::text[])", [list(payloads)])]
    db.execute("select mqpg.append()")
    return found


def bury(db: psycopg.Connection[Any], *payloads: str) -> list[int]:
    """Dead letters of g on orders."""
    ids = send(db, *payloads)
    while rows := db.execute("select message_id, receipt from mqpg.receive('g', 'orders')").fetchall():
        db.execute("select mqpg.nack(%s, %s, 'bad', final => true)", [rows[0][1], [row[0] for row in rows]])
    return ids


def test_topics(run: Run, db: psycopg.Connection[Any]) -> None:
    ok(run, "topic", "create", "orders", "--queues", "2")
    ok(run, "topic", "alter", "orders", "--retention", "3 days", "--message-ttl", "1 hour", "--queues", "4")
    ok(run, "topic", "pause", "orders")
    assert listed(run, "topic", "list") == [
        {"topic": "orders", "kind": "normal", "queues": 4, "retention": "3 days", "paused": True}
    ]
    ok(run, "topic", "resume", "orders")
    ok(run, "subscription", "add", "g", "orders")
    send(db, "1", "2")
    assert sum(row["next_offset"] for row in listed(run, "topic", "depth", "orders")) == 2
    assert ok(run, "topic", "purge", "orders") == "the groups of topic orders skip 2 messages in all\n"
    ok(run, "topic", "drop", "orders", "--force")
    assert listed(run, "topic", "list") == []


def test_a_week_is_seven_days_whoever_made_the_topic(run: Run, dsn: str) -> None:
    ok(run, "topic", "create", "by_command")
    with mqpg.connect(dsn) as mq:
        mq.create_topic("by_python")
    assert [row["retention"] for row in listed(run, "topic", "list")] == ["7 days", "7 days"]


def test_subscriptions(run: Run, db: psycopg.Connection[Any]) -> None:
    ok(run, "topic", "create", "orders", "--queues", "2")
    ok(run, "subscription", "add", "g", "orders", "--filter", "$.n > 1", "--tag", "a", "--tag", "b")
    ok(run, "subscription", "alter", "g", "orders", "--any-tag", "--on-failure", "block_key", "--max-attempts", "3")
    ok(run, "subscription", "pause", "g", "orders")
    (row,) = listed(run, "subscription", "list", "--topic", "orders")
    assert (row["mode"], row["on_failure"], row["filter"], row["tags"], row["max_attempts"], row["paused"]) == (
        "exclusive", "block_key", '($."n" > 1)', None, 3, True,
    )  # fmt: skip
    ok(run, "subscription", "resume", "g", "orders")
    ok(run, "subscription", "alter", "g", "orders", "--filter", "true", "--mode", "shared", "--on-failure", "skip")
    (row,) = listed(run, "subscription", "list")
    assert (row["mode"], row["filter"], row["paused"]) == ("shared", None, False)
    send(db, "1", "2", "3")
    ok(run, "subscription", "seek", "g", "orders", "latest")
    assert sum(row["lag"] for row in listed(run, "subscription", "lag", "g", "orders")) == 0
    ok(run, "subscription", "seek", "g", "orders", "0", "--queue", "1")
    ok(run, "subscription", "remove", "g", "orders")
    assert listed(run, "subscription", "list") == []


def test_a_pinned_queue_is_released_on_purpose(run: Run, db: psycopg.Connection[Any]) -> None:
    ok(run, "topic", "create", "orders", "--queues", "1")
    ok(run, "subscription", "add", "g", "orders", "--mode", "pinned")
    send(db, "1")
    assert db.execute("select count(*) from mqpg.receive('g', 'orders', consumer => 'gone')").fetchone() == (1,)
    assert db.execute("select count(*) from mqpg.receive('g', 'orders', consumer => 'next')").fetchone() == (0,)
    assert [row["owner"] for row in listed(run, "subscription", "lag", "g", "orders") if row["queue_id"] == 0] == [
        "gone"
    ]
    ok(run, "subscription", "unpin", "g", "orders", "--queue", "0", "--consumer", "gone")
    assert db.execute("select count(*) from mqpg.receive('g', 'orders', consumer => 'next')").fetchone() == (1,)


def test_dead_letters(run: Run, db: psycopg.Connection[Any]) -> None:
    ok(run, "topic", "create", "orders", "--queues", "1")
    ok(run, "subscription", "add", "g", "orders")
    ids = bury(db, '{"n": 1}', '{"n": 2}', '{"n": 3}', '{"n": 4}')
    found = listed(run, "dead-letters", "list", "g", "orders")
    assert [(row["payload"], row["reason"], row["attempts"]) for row in found] == [
        ({"n": n}, "bad", 1) for n in (4, 3, 2, 1)
    ]
    assert found[0]["history"][0]["reason"] == "bad"
    assert "bad" in ok(run, "dead-letters", "list", "g", "orders", "--limit", "1")
    again = "group g gets 1 dead letter of topic orders again\n"
    gone = "deleted 1 dead letter of group g on topic orders"
    assert ok(run, "dead-letters", "redrive", "g", "orders", "--filter", "$.n == 1") == again
    assert ok(run, "dead-letters", "discard", "g", "orders", "--id", str(ids[1])) == f"{gone}: {ids[1]}\n"
    assert ok(run, "dead-letters", "redrive", "g", "orders", "--max", "1") == again
    assert run("dead-letters", "discard", "g", "orders")[0] == 2
    assert ok(run, "dead-letters", "discard", "g", "orders", "--all") == f"{gone}\n"
    assert listed(run, "dead-letters", "list", "g", "orders") == []
    db.execute("select mqpg.append()")
    retried = db.execute("select payload ->> 'n' from mqpg.receive('g', 'orders', queue_id => -1)").fetchall()
    assert retried == [("1",), ("3",)]


def test_half_messages(run: Run, db: psycopg.Connection[Any]) -> None:
    ok(run, "topic", "create", "orders")
    ok(run, "group", "create", "shop", "--max-checks", "1", "--check-after", "50 ms")
    ok(run, "group", "alter", "shop", "--check-after", "10 ms")
    handles = [db.execute("select mqpg.prepare('orders', '1'::text, 'shop')").fetchone() for _ in range(2)]
    first, second = (str(row[0]) for row in handles if row)
    assert [row["state"] for row in listed(run, "half", "list", "--group", "shop")] == ["pending", "pending"]
    assert (
        ok(run, "half", "settle", first, "commit", "--reason", "seen at the shop")
        == f"committed half message {first}\n"
    )
    assert (
        ok(run, "half", "settle", first, "commit", "--reason", "again")
        == f"half message {first} was committed before\n"
    )
    code, out, err = run("half", "settle", first, "rollback", "--reason", "no")
    assert (code, out) == (1, "")
    assert err == f"mqpg: half message {first} was committed before, and the first decision remains\n"
    code, out, err = run("half", "settle", "abc", "rollback", "--reason", "no")
    assert (code, out, err) == (1, "", "mqpg: no half message has the handle abc\n")
    assert (
        ok(run, "half", "settle", second, "rollback", "--reason", "not at the shop")
        == f"rolled back half message {second}\n"
    )
    assert listed(run, "half", "list", "--parked") == []
    status, _, err = run("half", "rearm", second)
    assert status in (1, 2)
    assert err.startswith("mqpg: ")
    ok(run, "group", "drop", "shop")


def test_find_and_trace(run: Run, db: psycopg.Connection[Any]) -> None:
    ok(run, "topic", "create", "orders")
    db.execute("select mqpg.send('orders', '{\"n\": 1}'::text, key => 'k')")
    db.execute("select mqpg.append()")
    (found,) = listed(run, "find", "orders", "k")
    assert found["payload"] == {"n": 1}
    events = [row["event"] for row in listed(run, "trace", str(found["message_id"]))]
    assert events == ["born", "appended"]
    for nothing, command in (
        ("no message of topic orders has this key", ("find", "orders", "nobody")),
        ("no message 12", ("trace", "12")),
    ):
        assert run(*command) == (1, "", f"mqpg: {nothing}\n")  # and no empty table
        assert run(*command, "--json") == (1, "[]\n", f"mqpg: {nothing}\n")


WRONG: list[tuple[list[str], int, str]] = [
    (["topic", "create", "_no"], 2, "topic"),
    (["topic", "create", "x", "--queues", "0"], 2, "queues"),
    (["topic", "create", "x", "--retention", "soon"], 2, "interval"),
    (["topic", "pause", "nowhere"], 2, "nowhere"),
    (["topic", "depth", "nowhere"], 2, "nowhere"),
    (["topic", "drop", "nowhere"], 2, "nowhere"),
    (["subscription", "add", "g", "nowhere"], 2, "nowhere"),
    (["subscription", "lag", "g", "nowhere"], 2, "g"),
    (["subscription", "add", "g", "orders", "--mode", "queue"], 2, "mode"),
    (["subscription", "add", "g", "orders", "--filter", "$.("], 2, "jsonpath"),
    (["subscription", "seek", "g", "orders", "someday"], 2, "someday"),
    (["subscription", "seek", "g", "orders", "2026-12-01 10:00"], 2, "target must be"),
    (["subscription", "seek", "g", "orders", "5"], 2, "name it with --queue"),
    (["subscription", "add", "new", "orders", "--start", "2026-12-01 10:00"], 2, "start must be"),
    (["subscription", "unpin", "nobody", "orders"], 2, "nobody"),
    (["dead-letters", "list", "nobody", "orders"], 2, "nobody"),
    (["dead-letters", "redrive", "g", "orders", "--filter", "$$$("], 2, "jsonpath"),
    (["half", "rearm", "no-handle"], 2, "handle"),
    (["half", "settle", "no-handle", "perhaps", "--reason", "x"], 2, "perhaps"),
    (["trace", "-5"], 2, "-5"),
    (["find", "nowhere", "k"], 2, "nowhere"),
    (["topic", "list", "--dsn", "postgresql://127.0.0.1:1/x"], 3, "cannot connect"),
]


def test_an_error_is_one_line_and_a_status(run: Run) -> None:
    ok(run, "topic", "create", "orders")
    ok(run, "subscription", "add", "g", "orders")
    for arguments, status, said in WRONG:
        found, out, err = run(*arguments)
        assert (found, out) == (status, ""), f"{arguments}: {err}"
        assert said in err, arguments
        assert not err.startswith("mqpg: ") or err.count("\n") == 1, arguments
