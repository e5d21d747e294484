"""In topics that ask for checksums, every way of writing a message writes one, of all that a consumer gets."""

import pytest

from tests.support.broker import Session

WRITES = {
    "send": "select mqpg.send('{topic}', '{{}}'::text)",
    "send with all options": "select mqpg.send('{topic}', '1'::text, key => 'k', tag => 't', headers => '{{\"a\": 1.0}}', "
    "dedup_id => 'd')",
    "send with headers": "select mqpg.send('{topic}', '1'::text, key => 'k', headers => '{{\"b\": 1, \"a\": \"é\"}}')",
    "send later": "select mqpg.send('{topic}', '{{}}'::text, delay => '1 hour')",
    "send_batch": "select mqpg.send_batch('{topic}', array_fill('1'::text, array[1000]))",
    "send_batch with tags": "select mqpg.send_batch('{topic}', array['1', '2'], tags => array[null, 't'], headers => "
    "array['{{}}', null]::jsonb[])",
    "send_batch with nulls": "select mqpg.send_batch('{topic}', array['1', '2'], tags => '{{null,null}}')",
    "send_batch with keys": "select mqpg.send_batch('{topic}', array['1', '2', '3'], keys => array['a', null, 'b'])",
    # An array that does not begin at 1, and more than one record batch.
    "send_batch of a slice": "select mqpg.send_batch('{topic}', (array_fill('\"é\"'::text, array[3000]))[2:2500])",
    "send_batch once": "select mqpg.send_batch('{topic}', array['1', '2'], dedup_ids => array['x', null])",
    "commit with a final payload": "select mqpg.commit(mqpg.prepare('{topic}', '1'::text, 'pg', tag => 't'), '2'::text)",
    "commit_batch with final payloads": "select mqpg.commit_batch(array_agg(h), array['3', '4']) "
    "from mqpg.prepare_batch('{topic}', array['1', '2'], 'pg', keys => array['k', null]) as h",
}

CHANGES = (
    "keys = array_fill('x'::text, array[n])",
    "keys = null, tags = array_fill('x'::text, array[n])",
    "tags = null, headers = array_fill('{}'::jsonb, array[n])",
    "keys = null, tags = null, headers = null, payloads[1] = '\"other\"'",
)


@pytest.fixture(params=["one", "relayed"])
def topic(request: pytest.FixtureRequest, mq: Session) -> str:
    """A topic that asks for checksums, of each kind."""
    mq.call("create_topic", "relayed", queues=2, kind="relay")
    mq.call("alter_topic", request.param, checksums=True)
    return str(request.param)


def intact(mq: Session) -> set[bool | None]:
    return {row.intact for row in mq.rows("select intact from mqpg_audit.record_batch")}


@pytest.mark.parametrize("write", WRITES)
def test_every_body_has_one(mq: Session, topic: str, write: str) -> None:
    if topic == "relayed" and "send" in write:
        topic = "one"
        mq.call("alter_topic", topic, checksums=True)
    mq.execute(WRITES[write].format(topic=topic))
    assert intact(mq) == {True}
    for change in CHANGES:
        mq.execute(f"update mqpg.commit_log set {change}")
        assert intact(mq) == {False}, change


def test_a_checksum_of_an_earlier_release_covers_the_bodies(mq: Session) -> None:
    mq.call("alter_topic", "one", checksums=True)
    mq.send("one", tag="a")
    mq.execute("update mqpg.commit_log set checksum = hash_array_extended(payloads::text[], batch_id), tags = '{b}'")
    assert intact(mq) == {True}
    mq.execute("update mqpg.commit_log set payloads[1] = '\"other\"'")
    assert intact(mq) == {False}


def test_a_key_that_became_a_tag(mq: Session) -> None:
    mq.call("alter_topic", "one", checksums=True)
    mq.send("one", key="k")
    mq.execute("update mqpg.commit_log set tags = keys, keys = null")
    assert intact(mq) == {False}


@pytest.mark.parametrize("write", WRITES)
def test_other_topics_have_none(mq: Session, write: str) -> None:
    mq.execute(WRITES[write].format(topic="t"))
    assert intact(mq) == {None}


def test_rows_whose_bodies_and_checksums_were_exchanged(mq: Session) -> None:
    mq.call("alter_topic", "one", checksums=True)
    first, second = mq.send("one", '"a"'), mq.send("one", '"b"')
    mq.execute(
        "update mqpg.commit_log l set payloads = o.payloads, checksum = o.checksum from mqpg.commit_log o "
        "where (l.batch_id, o.batch_id) in ((%s, %s), (%s, %s))",
        first >> 10, second >> 10, second >> 10, first >> 10,
    )  # fmt: skip
    assert intact(mq) == {False}


def test_it_can_be_switched_off(mq: Session) -> None:
    mq.call("alter_topic", "one", checksums=True)
    mq.send("one")
    mq.call("alter_topic", "one", checksums=False)
    mq.send("one")
    assert intact(mq) == {True, None}


@pytest.mark.parametrize("change", ["topic_id = topic_id + 1", "producer_group_id = producer_group_id + 1",
                                    "check_at = check_at + interval '1 second'"])  # fmt: skip
@pytest.mark.parametrize("call", ["prepare('one', '1'::text, 'pg')", "prepare_batch('one', array['1', '2'], 'pg')",
                                  "prepare('one', '1'::text, 'pg', check_after => '7 days')",
                                  "prepare_batch('one', array['1', '2'], 'pg', keys => array['a', 'b'])"])  # fmt: skip
def test_a_half_message_keeps_its_topic_its_group_and_its_time(mq: Session, call: str, change: str) -> None:
    mq.call("alter_topic", "one", checksums=True)
    mq.execute(f"select * from mqpg.{call}")
    assert intact(mq) == {True}
    mq.execute(f"update mqpg.commit_log set {change}")
    assert intact(mq) == {False}
