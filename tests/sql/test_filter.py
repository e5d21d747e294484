"""Filters and tags of a subscription are evaluated in the server.

What is not chosen counts as consumed.
"""

import json
from typing import Any

import pytest

from tests.support.broker import Session, refused, seconds
from tests.support.mutation import mutate
from tests.support.waiting import eventually


def send(mq: Session, payload: Any, topic: str = "one", **named: Any) -> int:
    if "headers" in named:
        named["headers"] = json.dumps(named["headers"])
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return mq.send(topic, text, **named)


def chosen(mq: Session, topic: str = "one", **settings: Any) -> list[int]:
    """Subscribe with these settings, append, drain, and return the message ids that came."""
    mq.call("subscribe", "f", topic, **settings)
    return [m.message_id for m in mq.delivered(topic, group="f")]


def lag(mq: Session, group: str = "f", topic: str = "one") -> Any:
    sql = "select * from mqpg.subscription_lag where consumer_group = %s and topic = %s and queue_id = 0"
    return mq.rows(sql, group, topic)[0]


# what is chosen


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ("$.total > 100", {"big"}),
        ("$.total > 100 || $.kind == \"gift\"", {"big", "gift"}),
        ("$headers.region == \"eu\"", {"small", "gift"}),
        ("$tag == \"vip\" && $.total > 100", {"big"}),
        ("$key starts with \"c\"", {"gift"}),
        ("exists ($.lines[*] ? (@.sku == 7))", {"big"}),
        ("$.flag == true", {"gift"}),
        ("strict $.flag == true", {"gift"}),
        ("!($.total > 100)", {"small", "gift"}),
        ("($.kind > 100) is unknown", {"gift"}),
        ("$.kind like_regex \"^G\" flag \"i\"", {"gift"}),
        ("$.size() == 1 && $.type() == \"object\"", {"small", "big", "gift"}),
        ("$.nowhere == 1", set()),
        ("true", {"small", "big", "gift"}),
    ],
)  # fmt: skip
def test_a_predicate_on_payload_headers_key_and_tag(mq: Session, filter: str, wanted: set[str]) -> None:
    ids = {
        "small": send(mq, {"total": 5}, key="a", tag="std", headers={"region": "eu"}),
        "big": send(
            mq, {"total": 500, "lines": [{"sku": 3}, {"sku": 7}]}, key="b", tag="vip", headers={"region": "us"}
        ),
        "gift": send(mq, {"kind": "gift", "flag": True}, key="c", headers={"region": "eu"}),
    }
    assert chosen(mq, filter=filter) == [ids[name] for name in ("small", "big", "gift") if name in wanted]


def test_tags_choose_and_are_anded_with_the_filter(mq: Session) -> None:
    ids = [send(mq, {"i": i}, tag=tag) for i, tag in enumerate(["a", "b", None, "a", "c"])]
    assert chosen(mq, tags=["a", "c"], filter="$.i > 0") == [ids[3], ids[4]]
    mq.call("subscribe", "tagged", "one", tags=["a", "b"])
    assert [m.message_id for m in mq.drain("one", group="tagged")] == [ids[0], ids[1], ids[3]]


@pytest.mark.parametrize(
    "payload",
    [
        '{"i": 1, "text": "a\\u0000b"}',  # JSON accepts it, jsonb does not
        '{"i": 1e999999}',
        '{"i": "one"}',
        '{"i": [1, {}]}',
        "[" * 4000 + "]" * 4000,
        "null",
        "3",
    ],
)
def test_what_cannot_be_evaluated_is_no_match(mq: Session, payload: str) -> None:
    before = send(mq, {"i": 1})
    send(mq, payload)
    after = send(mq, {"i": 1})
    assert chosen(mq, filter="$.i == 1 && $.i.type() == \"number\"") == [before, after]  # fmt: skip
    assert lag(mq).lag == 0


def test_a_filter_that_raises_for_some_chooses_the_others(mq: Session) -> None:
    ids = [send(mq, {"at": at}) for at in ("2020-01-01", "no date", "2030-01-01")]
    assert chosen(mq, filter="$.at.datetime() > \"2025-01-01\".datetime()") == [ids[2]]  # fmt: skip


def test_a_comparison_that_needs_a_time_zone_is_no_match(mq: Session) -> None:
    """One message with another kind of time stops neither the subscription nor a choice of dead letters."""
    filter_ = '$.at.datetime() == "2026-01-01".datetime()'
    ids = [send(mq, {"at": at}) for at in ("2026-01-01", "2026-01-01T00:00:00+00:00", "2026-01-01")]
    assert chosen(mq, filter=filter_) == [ids[0], ids[2]]
    assert lag(mq).lag == 0
    mq.nack(mq.receive("one")[0].receipt, ids, final=True)
    assert mq.scalar("select mqpg.redrive('g', 'one', filter => %s::jsonpath)", filter_) == 2


def test_an_unknown_result_is_no_match_beside_one_that_raises(mq: Session) -> None:
    """The string is not comparable with a number, so its result is null. It is no match for each choice by a filter.

    Mutation that this notices: _matches_filter() returns true where jsonb_path_match() returns null.
    """
    unknown, raises, match = (send(mq, payload) for payload in ({"i": "one"}, '{"i": 1, "x": "\\u0000"}', {"i": 1}))
    assert chosen(mq, filter="$.i > 0") == [match]
    mq.nack(mq.receive("one")[0].receipt, [unknown, raises, match], final=True)
    listed = mq.rows("select message_id from mqpg.dead_letters('g', 'one', filter => '$.i > 0')")
    assert [row.message_id for row in listed] == [match]
    assert mq.scalar("select mqpg.redrive('g', 'one', filter => '$.i > 0')") == 1
    assert mq.scalar("select mqpg.discard_dead_letters('g', 'one', filter => '$.i > 0')") == 0
    assert {row.message_id for row in mq.call("dead_letters", "g", "one")} == {unknown, raises}


def test_messages_in_retry_were_chosen_before(mq: Session) -> None:
    mq.call("subscribe", "f", "one", filter="$ == 1", retry_delay=seconds(0))
    message_id = send(mq, 1)
    mq.append()
    (m,) = mq.receive("one", group="f")
    mq.nack(m.receipt, [message_id], delay=seconds(0))
    mq.call("alter_subscription", "f", "one", filter="$ == 2")
    (again,) = eventually(lambda: (mq.append(), mq.receive("one", group="f"))[1])
    assert (again.message_id, again.queue_id, again.attempt) == (message_id, -1, 2)


# back-references


@pytest.mark.parametrize(
    "filter",
    [
        r'$.a like_regex "^(.+)\\1\\1\\1$"',
        r'$.a like_regex "(a*)*\\1b" flag "i"',
        r'exists($.lines[*] ? (@.sku like_regex "(.)(.)\\2"))',
        r'$.b == "x" && !($.a like_regex "\\\\\\\\(a)\\1")',  # a backslash twice, then the reference
        r'$.a like_regex "(?b)\\(a\\)[\\]\\1"',
        r'$.a like_regex "(a)\u005c1"',
    ],
)
def test_a_back_reference_is_refused(mq: Session, filter: str) -> None:
    """Searching for it takes time that grows with a high power of the text's length, within one message."""
    with refused("MQ020", "may not use the back-reference"):
        mq.call("subscribe", "f", "one", filter=filter)
    mq.call("subscribe", "f", "one")
    for function in ("alter_subscription", "dead_letters", "redrive"):
        with refused("MQ020", "may not use the back-reference"):
            mq.call(function, "f", "one", filter=filter)


@pytest.mark.parametrize(
    "filter",
    [
        r'$.a like_regex "(a+)+$"',
        r'$.a like_regex "\\\\1"',  # a backslash and a 1
        r'$.a like_regex "\\d{1,20}\\D"',
        r'$.a like_regex "(a)\\1" flag "q"',  # plain text
        r'$.a == "like_regex" && $.b == "(a)\\1"',
        r'$.a == "like_regex \"(a)\\1\""',
        r'$."like_regex"."(a)\\1" == 1',
        '$.a == "$x"',
        '$."$y" == 1',
        r'$.a == "cost in $" && $tag == "\"$z\""',
    ],
)
def test_what_only_looks_like_a_back_reference_or_a_variable_is_allowed(mq: Session, filter: str) -> None:
    mq.call("subscribe", "f", "one", filter=filter)


def test_a_filter_that_is_stored_goes_on_working(mq: Session) -> None:
    """An older version has allowed it. The consumer subscribes again at each start."""
    mq.call("subscribe", "f", "one", filter="$.a == 1")
    old = r'$.a like_regex "^(.)\\1$"'
    mq.execute("update mqpg.subscription set filter = %s::jsonpath where consumer_group = 'f'", old)
    message_id = send(mq, {"a": "xx"})
    send(mq, {"a": "xy"})
    assert chosen(mq, filter=old) == [message_id]
    mq.call("alter_subscription", "f", "one", max_attempts=3)
    with refused("MQ020"):
        mq.call("subscribe", "other", "one", filter=old)


# what is not chosen counts as consumed


def test_filtered_messages_count_as_consumed(mq: Session) -> None:
    mq.call("subscribe", "f", "one", filter="$ >= 8")
    mq.sent_batch("one", [str(i) for i in range(10)])
    got = mq.receive("one", group="f")
    assert [m.payload for m in got] == [8, 9]
    assert (lag(mq).committed, lag(mq).lag) == (8, 2)
    mq.ack(got[0].receipt)
    assert (lag(mq).committed, lag(mq).lag) == (10, 0)


def test_a_range_filtered_to_nothing_is_acknowledged_by_receive(mq: Session) -> None:
    mq.call("subscribe", "f", "one", tags=["never"])
    mq.sent_batch("one", ["1"] * 3000)
    assert mq.receive("one", group="f", max_messages=10) == []
    assert (lag(mq).committed, lag(mq).claims) == (3000, 0)


def test_receive_goes_on_behind_what_it_filtered(mq: Session) -> None:
    mq.call("subscribe", "f", "one", filter="$ == 7")
    mq.sent_batch("one", ["1"] * 2500 + ["7"] + ["1"] * 2500)
    (m,) = mq.receive("one", group="f", max_messages=1)
    assert (m.queue_offset, m.payload) == (2500, 7)
    mq.ack(m.receipt)
    assert mq.receive("one", group="f") == []
    assert lag(mq).lag == 0


def test_an_object_too_large_for_jsonb_is_no_match(mq: Session) -> None:
    """PostgreSQL then has an internal error, which is none of the payload's class. An array needs twice as many values."""
    mq.call("alter_topic", "one", max_payload=60_000_000)
    mq.call("subscribe", "f", "one", filter="$.a == 7")
    sent = mq.scalar("""select mqpg.send('one', '{' || repeat('"":1,', 8400000) || '"":1}')""")
    mq.append()
    assert mq.receive("one", group="f") == []
    assert lag(mq).committed == 1
    assert (
        mq.scalar("select mqpg._filter_values('$.a == 7', null, null, null, payload) from mqpg._message(%s)", sent)
        is None
    )


def test_receive_goes_on_to_the_next_queue(mq: Session) -> None:
    mq.call("subscribe", "f", "t", filter="$ == 7")
    for _ in range(20):
        mq.send("t", "1")
    wanted = mq.sent("t", "7")
    mq.execute("update mqpg.settings set value = '1 minute' where name = 'filter_time'")
    assert [m.message_id for m in mq.receive("t", group="f")] == [wanted]


@pytest.fixture
def hasty(mq: Session) -> Session:
    """A call searches no longer than for one step."""
    mq.execute("update mqpg.settings set value = '0 s' where name = 'filter_time'")
    return mq


def test_the_look_is_bounded_by_filter_time(hasty: Session) -> None:
    hasty.call("subscribe", "f", "one", filter="$ == 7")
    hasty.sent_batch("one", ["1"] * 500 + ["7"])
    assert hasty.receive("one", group="f", max_messages=100) == []
    assert lag(hasty).committed == 100
    assert [m.payload for m in eventually(lambda: hasty.receive("one", group="f", max_messages=100))] == [7]


def test_the_look_through_all_queues_is_bounded_by_filter_time(hasty: Session) -> None:
    hasty.call("subscribe", "f", "t", filter="$ == 7")
    hasty.send_batch("t", ["1"] * 4, keys=list("abcd"))
    hasty.sent_batch("t", ["1"] * 4, keys=list("efgh"))
    queues = hasty.scalar("select count(*) from mqpg.queue_depth where topic = 't' and next_offset > 0")
    assert queues > 1
    for call in range(1, queues + 1):
        assert hasty.receive("t", group="f") == []
        assert hasty.scalar("select count(*) from mqpg.cursor where action = 'f'") == call


def test_the_look_behind_a_failed_message_is_bounded_by_filter_time(hasty: Session) -> None:
    hasty.call("subscribe", "f", "one", filter="$ == 7", on_failure="block_key")
    failed = hasty.send("one", "7", key="a")
    hasty.sent_batch("one", ["1"] * 500)
    (message,) = hasty.receive("one", group="f", max_messages=1)
    hasty.nack(message.receipt, [failed], delay=seconds(1000))
    for call in range(1, 4):
        assert hasty.receive("one", group="f", max_messages=100) == []
        newest = "select claimed from mqpg.cursor where action = 'f' order by version desc limit 1"
        assert hasty.scalar(newest) == 1 + 100 * call


def test_a_rollback_takes_back_what_was_filtered(mq: Session) -> None:
    mq.call("subscribe", "f", "one", tags=["never"])
    mq.sent_batch("one", ["1"] * 10)
    with mq.transaction(force_rollback=True):
        assert mq.receive("one", group="f") == []
    assert lag(mq).committed == 0


# claims with holes


def test_cutting_runs_to_the_chosen_messages_is_linear(mq: Session) -> None:
    """If each run were compared with each chosen message, these would take a quarter of an hour."""
    mq.execute("set statement_timeout = '1min'")
    (found,) = mq.rows(
        "select r.* from (select array_agg(o) as all_, array_agg(o) filter (where o % 2 = 1) as picked,"
        " array_agg(1) as lengths from generate_series(0, 99999) o) a"
        " cross join lateral mqpg._matching_runs(picked, all_, all_, all_, lengths, lengths, 0, 0) r"
    )
    assert found.offsets == found.ids == found.bodies == list(range(1, 100000, 2))
    assert found.lengths == found.attempts == [1] * 50000
    assert (found.lowest, found.highest) == (0, 99999 // 1024)


@pytest.fixture
def odd(mq: Session) -> Session:
    """Group `f` takes the odd ones of 0..9 on topic `one`."""
    mq.call("subscribe", "f", "one", tags=["odd"], max_attempts=3, retry_delay=seconds(0))
    mq.sent_batch("one", [str(i) for i in range(10)], tags=["even", "odd"] * 5)
    return mq


def payloads(rows: list[Any]) -> list[int]:
    return [row.payload for row in rows]


def test_max_messages_counts_what_is_chosen(odd: Session) -> None:
    got = odd.receive("one", group="f", max_messages=3)
    assert (payloads(got), [m.queue_offset for m in got]) == ([1, 3, 5], [1, 3, 5])
    odd.ack(got[0].receipt)
    assert payloads(odd.receive("one", group="f", max_messages=3)) == [7, 9]


def test_ack_through_with_holes(odd: Session) -> None:
    got = odd.receive("one", group="f")
    odd.ack(got[0].receipt, through=4)
    assert lag(odd).committed == 5
    odd.call("release", got[0].receipt)
    assert payloads(odd.receive("one", group="f")) == [5, 7, 9]


def test_nack_with_holes(odd: Session) -> None:
    got = odd.receive("one", group="f")
    with refused("MQ001", "message_ids"):
        odd.nack(got[0].receipt, [got[0].message_id + 1])  # an even one
    odd.nack(got[0].receipt, [got[2].message_id], delay=seconds(60))
    odd.call("release", got[0].receipt)
    assert payloads(odd.drain("one", group="f", max_messages=2)) == [1, 3, 7, 9]


def test_take_over_with_holes(odd: Session) -> None:
    odd.receive("one", group="f", lease=seconds(0.02))
    got = eventually(lambda: odd.receive("one", group="f", max_messages=2))
    assert (payloads(got), {m.attempt for m in got}) == ([1, 3], {2})
    odd.ack(got[0].receipt)
    rest = odd.receive("one", group="f")
    assert (payloads(rest), {m.attempt for m in rest}) == ([5, 7, 9], {2})


def test_the_last_attempt_comes_alone_with_holes(odd: Session) -> None:
    seen = []
    for _ in range(8):
        got = eventually(
            lambda: odd.receive("one", group="f", lease=seconds(0.01)) or ["end"] * bool(lag(odd).lag == 0)
        )
        if got == ["end"]:
            break
        seen.append((payloads(got), got[0].attempt))
    assert seen == [([1, 3, 5, 7, 9], 1), ([1, 3, 5, 7, 9], 2), *(([i], 3) for i in (1, 3, 5, 7, 9))]
    odd.execute("select pg_sleep(0.02)")
    assert odd.receive("one", group="f") == []
    assert sorted(d.payload for d in odd.call("dead_letters", "f", "one")) == [1, 3, 5, 7, 9]


def test_shared_claims_with_holes(odd: Session) -> None:
    odd.call("alter_subscription", "f", "one", mode="shared")
    parts = [odd.receive("one", group="f", max_messages=2) for _ in range(3)]
    assert [payloads(p) for p in parts] == [[1, 3], [5, 7], [9]]
    odd.ack(parts[1][0].receipt)
    assert lag(odd).committed == 1
    odd.ack(parts[0][0].receipt)
    odd.ack(parts[2][0].receipt)
    assert (lag(odd).committed, lag(odd).lag) == (10, 0)


def test_runs_of_many_batches_with_holes(mq: Session) -> None:
    """Single sends, batches and final payloads are runs of their own."""
    mq.call("subscribe", "f", "one", tags=["x"])
    wanted = []
    for i in range(40):
        tag = "x" if i % 7 == 0 else "y"
        if i % 3 == 0:
            got = [mq.send("one", str(i), tag=tag)]
        elif i % 3 == 1:
            got = mq.send_batch("one", [str(i)] * 3, tags=[tag, "y", tag])
            got = [got[0], got[2]]
        else:
            handle = mq.prepare("one", "0", tag=tag)
            mq.commit(handle, str(i))
            got = [int(handle.split(".")[2])]
        if tag == "x":
            wanted += got
        if i % 11 == 0:
            mq.append()
    assert [m.message_id for m in mq.delivered("one", group="f", max_messages=4)] == wanted


# settings


def test_alter_subscription_changes_and_takes_away(mq: Session) -> None:
    mq.call("subscribe", "f", "one", filter="$ > 5", tags=["x"])
    mq.call("alter_subscription", "f", "one", filter="$ > 1", tags=["y"])
    mq.call("alter_subscription", "f", "one", max_attempts=3)
    assert mq.rows("select filter::text, tags from mqpg.subscription where consumer_group = 'f'") == [
        ("($ > 1)", ["y"])
    ]
    mq.call("alter_subscription", "f", "one", filter="true", tags=[])
    assert mq.rows("select filter::text, tags from mqpg.subscription where consumer_group = 'f'") == [(None, None)]


def test_subscribe_again_compares_filter_and_tags(mq: Session) -> None:
    mq.call("subscribe", "f", "one", filter="$.a == 1", tags=["x"])
    mq.call("subscribe", "f", "one", filter="$.a==1", tags=["x"])
    for other in ({"filter": "$.a == 2", "tags": ["x"]}, {"filter": "$.a == 1"}, {"filter": "$.a == 1", "tags": ["y"]}):
        with refused("MQ011", "alter_subscription"):
            mq.call("subscribe", "f", "one", **other)


@pytest.mark.parametrize(
    ("settings", "sqlstate", "mention"),
    [
        ({"filter": "$.a == == 1"}, "42601", None),
        ({"filter": "$.a == $limit"}, "MQ020", "limit"),
        ({"filter": "$.a == 1 && $b.c == \"$headers\""}, "MQ020", '"b"'),
        ({"tags": ["x", None]}, "MQ001", "tags"),
        ({"tags": [["x"], ["y"]]}, "MQ001", "tags"),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_work_is_refused(
    mq: Session, settings: dict[str, Any], sqlstate: str, mention: str | None
) -> None:
    with refused(sqlstate, mention):
        mq.call("subscribe", "f", "one", **settings)
    mq.call("subscribe", "f", "one")
    with refused(sqlstate, mention):
        mq.call("alter_subscription", "f", "one", **settings)


@pytest.mark.parametrize(
    "text",
    [
        "$.i",
        "$.total ? (@ > 10)",
        "strict $.total ? (@ > 10)",
        "($.total > 10) ? (@ == true)",
        "$",
        "$[*].total",
        "$.**",
        "$.total + 1",
        "1",
        '"x"',
        "$.type()",
        "$headers.region",
        "$key",
        "$tag",
        "false",
        "null",
        "strict false",
    ],
)
def test_a_filter_that_is_no_predicate_is_refused(mq: Session, text: str) -> None:
    """It would choose nothing, and every message would count as consumed."""
    with refused("MQ020", "must be a predicate such as $.total > 100"):
        mq.call("subscribe", "f", "one", filter=text)
    with refused("MQ020", "exists($.total ? (@ > 100))"):
        mq.call("subscribe", "f", "one", filter=text)
    mq.call("subscribe", "f", "one", filter="$.total > 10")
    with refused("MQ020", "must be a predicate"):
        mq.call("alter_subscription", "f", "one", filter=text)
    for call in ("dead_letters", "redrive", "discard_dead_letters"):
        with refused("MQ020", "must be a predicate"):
            mq.rows(f"select * from mqpg.{call}('f', 'one', filter => %s::jsonpath)", text)


def test_other_subscriptions_pay_nothing(mq: Session) -> None:
    """Without a filter and tags the functions of filtering are not called."""
    mq.sent_batch("one", ["1"] * 10)
    with mq.transaction():
        mq.execute("set local track_functions = 'all'")
        assert len(mq.drain("one")) == 10
        called = {r[0] for r in mq.rows("select funcname from pg_stat_xact_user_functions")}
    assert "_claim_next" in called
    assert not called & {"_next_matches", "_matching_offsets", "_matches_filter", "_matching_runs"}
    assert not called & {"_member", "_claim_by_key", "_claim_to_take_over"}


def test_what_is_not_chosen_does_not_expire_into_the_dead_letters(mq: Session) -> None:
    mq.call("alter_topic", "one", message_ttl=seconds(0.02), on_expired="dead_letter")
    ids = mq.sent_batch("one", [str(i) for i in range(4)], tags=["a", "b"] * 2)
    mq.call("subscribe", "f", "one", tags=["a"])
    mq.execute("select pg_sleep(0.1)")
    assert mq.receive("one", group="f") == []
    assert sorted(d.message_id for d in mq.call("dead_letters", "f", "one")) == [ids[0], ids[2]]


def test_the_audit_judges_each_message_by_the_filter_of_its_time(mq: Session) -> None:
    mq.call("subscribe", "f", "one", tags=["a"])

    def age() -> None:
        """Let the hour pass in which a replaced filter may still be in use."""
        mq.execute("update mqpg.cursor set at = at - interval '2 hours'")
        mq.execute("update mqpg.former_filter set replaced_at = replaced_at - interval '2 hours'")

    def pass_all() -> tuple[list[int], set[int]]:
        ids = mq.sent_batch("one", ["1", "2", '{"big": 1e999999}', '{"text": "\\u0000"}'], tags=["a", "b", "a", "b"])
        return ids, {m.message_id for m in mq.drain("one", group="f")}

    seen, everything = set[int](), set[int]()
    changes: tuple[dict[str, Any], ...] = (
        {"tags": []},
        {"filter": "$ > 1"},
        {"tags": ["b"]},
        {"filter": "true", "tags": []},
        {"max_attempts": 3},
    )
    for change in changes:
        ids, found = pass_all()
        seen, everything = seen | found, everything | set(ids)
        age()
        mq.call("alter_subscription", "f", "one", **change)
        age()
    assert mq.scalar("select count(*) from mqpg.former_filter") == 4
    left = {r.message_id for r in mq.rows("select * from mqpg_audit.unmatched")}
    assert left == everything - seen
    assert len(left) == 2 + 0 + 3 + 3


class TestMutants:
    """Mutants of the rules that are easy to lose. Each shows that its rule is needed."""

    def test_without_the_fallback_one_bad_payload_stops_the_subscription(self, mq: Session) -> None:
        mutate(
            mq,
            "_matching_offsets",
            "exception when data_exception or feature_not_supported or program_limit_exceeded or undefined_object\n"
            "        or internal_error then",
            "exception when division_by_zero then",
        )
        send(mq, '"a\\u0000b"')
        mq.append()
        mq.call("subscribe", "f", "one", filter="$ == 1")
        with refused("22P05"):
            mq.receive("one", group="f")
