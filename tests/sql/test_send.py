"""send, send_batch and recall by contract: ids, pieces, queues, payloads, delay, dedup."""

import json

from tests.support.broker import Session, make_due, positions, refused, seconds
from tests.support.waiting import eventually

KIB = 1024


def stored(mq: Session) -> int:
    return int(mq.scalar("select coalesce(sum(n), 0) from mqpg.commit_log"))


# ids


def test_a_message_alone_is_position_zero_of_its_batch(mq: Session) -> None:
    first, second = mq.send("t"), mq.send("t")
    assert first % 1024 == second % 1024 == 0
    assert first < second


def test_empty_batch_returns_nothing_and_stores_nothing(mq: Session) -> None:
    assert mq.send_batch("t", []) == []
    assert mq.send_batch("t", [], keys=[]) == []
    assert stored(mq) == 0


# pieces


def test_a_batch_over_1024_messages_is_cut_into_pieces(mq: Session) -> None:
    ids = mq.send_batch("t", ["1"] * 2500)
    pieces = mq.rows("select batch_id, n from mqpg.commit_log order by batch_id")
    assert sum(p.n for p in pieces) == 2500
    assert max(p.n for p in pieces) <= 1024
    assert len(pieces) == 3
    assert ids == sorted(set(ids))
    mq.append()
    assert sorted(m for _, _, m in positions(mq, "t")) == ids


def test_a_batch_over_256_kib_is_cut_into_pieces(mq: Session) -> None:
    body = json.dumps("x" * (50 * KIB))
    ids = mq.send_batch("t", [body] * 12)
    sizes = [
        row[0]
        for row in mq.rows(
            "select (select sum(octet_length(p::text)) from unnest(payloads) as u(p)) from mqpg.commit_log"
        )
    ]
    assert len(sizes) >= 2
    assert max(sizes) <= 320 * KIB
    assert len(ids) == len(set(ids)) == 12
    assert [m.payload for m in mq.delivered("t")] == ["x" * (50 * KIB)] * 12


def test_keyed_batch_makes_one_row_per_queue_touched(mq: Session) -> None:
    mq.send_batch("t", ["1"] * 200, keys=[f"k{i}" for i in range(200)])
    assert sorted(r.queue_id for r in mq.rows("select queue_id from mqpg.commit_log")) == [0, 1, 2, 3]


def test_keyed_batch_with_large_bodies_keeps_order_per_key(mq: Session) -> None:
    body = "x" * (60 * KIB)
    payloads = [json.dumps({"i": i, "body": body if i % 3 == 0 else ""}) for i in range(40)]
    mq.sent_batch("t", payloads, keys=[f"k{i % 3}" for i in range(40)])
    seen: dict[str, list[int]] = {}
    for m in sorted(mq.drain("t", max_messages=100), key=lambda m: (m.queue_id, m.queue_offset)):
        seen.setdefault(m.key, []).append(m.payload["i"])
    assert sorted(i for values in seen.values() for i in values) == list(range(40))
    assert all(values == sorted(values) for values in seen.values())


def test_null_elements_of_keys_are_messages_without_key(mq: Session) -> None:
    keys = ["a" if i % 2 else None for i in range(40)]
    ids = mq.send_batch("t", [str(i) for i in range(40)], keys=keys)
    got = {m.message_id: m for m in mq.delivered("t")}
    assert [got[i].key for i in ids] == keys
    assert [got[i].payload for i in ids] == list(range(40))
    assert len({m.queue_id for m in got.values() if m.key == "a"}) == 1


def test_arrays_that_are_all_null_are_stored_as_null(mq: Session) -> None:
    mq.send_batch("t", ["1", "2"], keys=[None, None], tags=[None, None])
    row = mq.rows("select keys, tags, headers from mqpg.commit_log")
    assert len(row) == 1
    assert tuple(row[0]) == (None, None, None)


# what is carried


def test_key_tag_and_headers_arrive(mq: Session) -> None:
    mq.send("t", '{"a": 1}', key="k", tag="x", headers='{"h": [1, null]}')
    (m,) = mq.delivered("t")
    assert (m.topic, m.key, m.tag, m.headers, m.payload) == ("t", "k", "x", {"h": [1, None]}, {"a": 1})
    assert m.attempt == 1
    assert m.born_at is not None


def test_tags_and_headers_of_a_batch_arrive(mq: Session) -> None:
    sql = (
        "select * from mqpg.send_batch('t', %s::text[], keys => %s::text[], tags => %s::text[], headers => %s::jsonb[])"
    )
    ids = [r[0] for r in mq.rows(sql, ["1", "2", "3"], ["a", None, "b"], [None, "x", None], ['{"n": 1}', None, None])]
    got = {m.message_id: m for m in mq.delivered("t")}
    assert [(got[i].key, got[i].tag, got[i].headers) for i in ids] == [
        ("a", None, {"n": 1}),
        (None, "x", None),
        ("b", None, None),
    ]


def test_payload_overloads_all_just_work(mq: Session) -> None:
    for expression in (
        """'{"a": 1}'""",
        """'{"a": 1}'::text""",
        """'{"a": 1}'::json""",
        """'{"a": 1}'::jsonb""",
        "jsonb_build_object('a', 1)",
        "json_build_object('a', 1)",
        "row_to_json(r)",
        "to_jsonb(r)",
    ):
        mq.execute(f"select mqpg.send('one', {expression}) from (select 1 as a) as r")
    assert [m.payload for m in mq.delivered("one")] == [{"a": 1}] * 8


def test_batch_payload_overloads(mq: Session) -> None:
    mq.execute("select mqpg.send_batch('one', array['1', '2'])")
    mq.execute("select mqpg.send_batch('one', array['1', '2']::json[])")
    mq.execute("select mqpg.send_batch('one', array['1', '2']::jsonb[])")
    mq.execute("select mqpg.send_batch('one', array_agg(to_jsonb(i))) from generate_series(1, 2) as i")
    assert [m.payload for m in mq.delivered("one")] == [1, 2] * 4


def test_bytes_are_kept_verbatim(mq: Session) -> None:
    bodies = ['{"b" :1,   "a": 1.10, "a":2}', "[ ]", "null", '"x"', "\t{}\n", "1e400"]
    for body in bodies:
        mq.send("one", body)
    mq.sent_batch("one", bodies)
    got = mq.rows(
        "select payload::text as body from mqpg.fetch('one', 0, 0, max_messages => 100) order by queue_offset"
    )
    assert [r.body for r in got] == bodies * 2


def test_payload_of_exactly_the_limit_is_taken(mq: Session) -> None:
    mq.call("create_topic", "small", queues=1)
    mq.call("alter_topic", "small", max_payload=100)
    mq.send("small", json.dumps("x" * 98))
    with refused("MQ010"):
        mq.send("small", json.dumps("x" * 99))
    with refused("MQ010"):
        mq.send_batch("small", ["1", json.dumps("x" * 99)])
    with refused("MQ010"):
        mq.prepare("small", json.dumps("x" * 99))
    assert stored(mq) == 1


def test_the_limit_counts_bytes_not_characters(mq: Session) -> None:
    mq.call("create_topic", "small", queues=1)
    mq.call("alter_topic", "small", max_payload=100)
    with refused("MQ010"):
        mq.send("small", json.dumps("é" * 60, ensure_ascii=False))


# delay


def test_delay_of_a_batch_holds_all_of_it_back(mq: Session) -> None:
    ids = mq.send_batch("one", ["1", "2", "3"], delay=seconds(600))
    mq.sent("one", "0")
    assert [m.payload for m in mq.drain("one")] == [0]
    make_due(mq)
    eventually(mq.append)
    assert [m.message_id for m in mq.drain("one")] == ids


def test_deliver_at_is_a_time_on_the_database_clock(mq: Session) -> None:
    mq.execute("select mqpg.send('one', '1', deliver_at => clock_timestamp() + interval '600 s')")
    mq.append()
    assert mq.receive("one") == []
    assert 500 < mq.scalar("select extract(epoch from visible_at - clock_timestamp()) from mqpg.delayed") <= 600
    make_due(mq)
    eventually(mq.append)
    assert [m.payload for m in mq.receive("one")] == [1]


def test_recall_out_of_the_middle_of_a_batch_splits_its_run(mq: Session) -> None:
    ids = mq.send_batch("one", ["0", "1", "2", "3", "4"], delay=seconds(0.15))
    assert mq.value("recall", ids[2]) is True
    mq.execute("select pg_sleep(0.2)")
    got = mq.delivered("one")
    assert [m.message_id for m in got] == ids[:2] + ids[3:]
    assert [m.payload for m in got] == [0, 1, 3, 4]
    assert [m.queue_offset for m in got] == [0, 1, 2, 3]


# dedup


def test_a_dedup_id_seen_stores_once_and_returns_the_first_id(mq: Session) -> None:
    first = mq.send("one", "1", dedup_id="d")
    assert mq.send("one", "2", dedup_id="d") == first
    assert mq.send("one", "3", dedup_id="e") != first
    assert [m.payload for m in mq.delivered("one")] == [1, 3]
    assert mq.send("one", "4", dedup_id="d") == first


def test_dedup_ids_are_per_topic(mq: Session) -> None:
    first = mq.send("one", "1", dedup_id="d")
    assert first != mq.send("t", "1", dedup_id="d")
    assert stored(mq) == 2


def test_a_dedup_id_repeated_inside_one_batch_stores_once(mq: Session) -> None:
    ids = mq.send_batch("one", ["1", "2", "3", "4"], dedup_ids=["a", "b", "a", None])
    assert ids[0] == ids[2]
    assert len(set(ids)) == 3
    assert [m.payload for m in mq.delivered("one")] == [1, 2, 4]


def test_a_batch_mixing_known_and_new_dedup_ids_keeps_argument_order(mq: Session) -> None:
    known = mq.send_batch("one", ["1", "2"], dedup_ids=["a", "b"])
    ids = mq.send_batch("one", ["9", "3", "8", "4"], dedup_ids=["b", "c", "a", "d"])
    assert (ids[0], ids[2]) == (known[1], known[0])
    got = {m.message_id: m.payload for m in mq.delivered("one")}
    assert [got[i] for i in ids] == [2, 3, 1, 4]
    assert len(got) == 4


def test_a_keyed_batch_with_dedup_ids(mq: Session) -> None:
    keys = ["a", "b", None, "a", "b", "a"]
    ids = mq.send_batch("t", [str(i) for i in range(6)], keys=keys, dedup_ids=["1", "2", "3", "1", "4", None])
    got = {m.message_id: (m.payload, m.key) for m in mq.delivered("t")}
    assert ids[3] == ids[0]
    assert [got[i] for i in ids] == [(0, "a"), (1, "b"), (2, None), (0, "a"), (4, "b"), (5, "a")]
    assert len(got) == 5


def test_a_batch_of_known_dedup_ids_only_stores_nothing(mq: Session) -> None:
    first = mq.send_batch("one", ["1", "2"], dedup_ids=["a", "b"])
    assert mq.send_batch("one", ["1", "2"], dedup_ids=["a", "b"]) == first
    assert stored(mq) == 2


def test_delayed_send_with_dedup_id(mq: Session) -> None:
    first = mq.send("one", "1", dedup_id="d", delay=seconds(0.1))
    assert mq.send("one", "2", dedup_id="d", delay=seconds(0.1)) == first
    assert mq.send("one", "3", dedup_id="d") == first
    eventually(mq.append)
    assert [m.payload for m in mq.drain("one")] == [1]
