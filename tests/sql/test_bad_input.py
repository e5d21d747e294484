"""Bad input: every bad argument of every function gives the right SQLSTATE, names the argument, and
stores nothing. test_hostile_values.py passes null to each of them, and test_receipts.py receipts that are spent.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.fixtures.databases import Databases
from tests.support.broker import Broker, Session, refused

BAD_NAMES = ["", " ", "a b", "é", "-a", ".a", "_a", "a" * 128, "a\n", "a;drop", "a/b", "a'"]
GOOD_NAMES = ["a", "9", "A.b_c-D", "a" * 127, "select", "null", "a--b", "x.y.z"]


class Case(NamedTuple):
    sql: str  # of one call; {…} are values of the module's broker
    code: str
    mention: str | None


def case(sql: str, code: str, mention: str | None = None) -> Case:
    return Case(sql, code, mention)


BIG = "('\"' || repeat('x', 2000000) || '\"')"

TOPIC_CASES = [
    case("create_topic('n', queues => 0)", "MQ001", "queues"),
    case("create_topic('n', queues => 1000000)", "MQ001", "queues"),
    case("create_topic('n', retention => '0')", "MQ001", "retention"),
    case("create_topic('n', kind => 'strange')", "MQ001", "kind"),
    case("create_topic('t', queues => 5)", "MQ011", "t"),
    case("alter_topic('nosuch', max_payload => 10)", "MQ003", "nosuch"),
    case("alter_topic('t', max_payload => 0)", "MQ001", "max_payload"),
    case("alter_topic('t', retention => '-1 s')", "MQ001", "retention"),
    case("drop_topic('nosuch')", "MQ003", "nosuch"),
    case("drop_topic('t')", "MQ012", "t"),
    case("alter_topic('t', lose_after => '-1 s')", "MQ001", "lose_after"),
    case("alter_topic('t', lose_over => -1)", "MQ001", "lose_over"),
    case("alter_topic('t', message_ttl => '-1 s')", "MQ001", "message_ttl"),
    case("alter_topic('t', on_expired => 'maybe')", "MQ001", "on_expired"),
    *(case(f"{call}('nosuch')", "MQ003", "nosuch") for call in ("pause", "resume", "purge_topic")),
    *(case(f"{call}('t', 'nosuch')", "MQ005", "nosuch") for call in ("pause", "resume")),
    case("find_by_key('nosuch', 'k')", "MQ003", "nosuch"),
]

PRODUCE_CASES = [
    case("send('nosuch', '1')", "MQ003", "nosuch"),
    case("send('no such', '1')", "MQ002", "topic"),
    case("send('t', 'not json')", "22P02", "json"),
    case("send('t', '{\"a\": 1')", "22P02", "json"),
    case(f"send('t', {BIG})", "MQ010", "payload"),
    case(f"send('t', {BIG}::json)", "MQ010", "payload"),
    case(f"send('t', {BIG}::jsonb)", "MQ010", "payload"),
    case("send('t', '1', headers => jsonb_build_object('h', repeat('x', 2000000)))", "MQ010", "headers"),
    case("send('t', '1', headers => jsonb_build_object('mqpg-earlier-ids', repeat('x', 3500000)))", "MQ010", "headers"),
    case(
        "send('t', '1', headers => (select jsonb_agg('1e9999'::jsonb) from generate_series(1, 120)))",
        "MQ010",
        "headers",
    ),
    case("send('t', '1', key => repeat('k', 5000))", "MQ001", "key"),
    case("send('t', '1', tag => repeat('k', 5000))", "MQ001", "tag"),
    case("send('t', '1', delay => '-1 s')", "MQ001", "delay"),
    case("send('t', '1', delay => '1000 years')", "MQ001", "delay"),
    case("send('t', '1', delay => '1 s', deliver_at => now() + interval '1 s')", "MQ001", "deliver_at"),
    case("send('t', '1', deliver_at => 'infinity')", "MQ001", "deliver_at"),
    case("send('t', '1', dedup_id => '')", "MQ001", "dedup_id"),
    case("send('t', '1', dedup_id => repeat('k', 5000))", "MQ001", "dedup_id"),
    case("send_batch('nosuch', array['1'])", "MQ003", "nosuch"),
    case("send_batch('nosuch', '{}'::text[])", "MQ003", "nosuch"),
    case("send_batch('t', array['1', null])", "MQ001", "payloads"),
    case("send_batch('t', array['1', null]::json[])", "MQ001", "payloads"),
    case("send_batch('t', array[null, '1']::jsonb[])", "MQ001", "payloads"),
    case("send_batch('t', array['1', 'no'])", "22P02", "json"),
    case("send_batch('t', array[array['1'], array['2']])", "MQ001", "payloads"),
    case(f"send_batch('t', array['1', {BIG}])", "MQ010", "payloads"),
    case(f"send_batch('t', array['1', '2'], headers => array[null, {BIG}::jsonb])", "MQ010", "headers"),
    case("send_batch('t', array['1', '2'], keys => array['a'])", "MQ001", "keys"),
    case("send_batch('t', array['1', '2'], keys => array['a', 'b', 'c'])", "MQ001", "keys"),
    case("send_batch('t', array['1', '2'], keys => '{}')", "MQ001", "keys"),
    case("send_batch('t', '{}'::text[], keys => array['a'])", "MQ001", "keys"),
    case("send_batch('t', array['1', '2'], tags => array['a'])", "MQ001", "tags"),
    case("send_batch('t', array['1', '2'], headers => array['{}']::jsonb[])", "MQ001", "headers"),
    case("send_batch('t', array['1', '2'], dedup_ids => array['a'])", "MQ001", "dedup_ids"),
    case("send_batch('t', array['1', '2'], dedup_ids => array['a', ''])", "MQ001", "dedup_id"),
    case("send_batch('t', array['1', '2'], keys => array['a', repeat('k', 5000)])", "MQ001", "keys"),
    case("send_batch('t', array['1'], delay => '-1 s')", "MQ001", "delay"),
    case("recall(-1)", "MQ001", "message_id"),
    case("recall(123456789012345)", "MQ001", "message_id"),
    case("recall({message_id})", "MQ001", "message_id"),
]

GROUP_CASES = [
    case("create_producer_group('n', check_after => '0')", "MQ001", "check_after"),
    case("create_producer_group('n', max_checks => 0)", "MQ001", "max_checks"),
    case("create_producer_group('n', max_undecided => 0)", "MQ001", "max_undecided"),
    case("create_producer_group('n', max_undecided => -1)", "MQ001", "max_undecided"),
    case("create_producer_group('n', on_exhausted => 'commit')", "MQ001", "on_exhausted"),
    case("create_producer_group('n', checker => 'guess')", "MQ001", "checker"),
    case("create_producer_group('n', checker => 'url')", "MQ001", "checker_target"),
    case("create_producer_group('n', checker => 'function')", "MQ001", "checker_target"),
    case("create_producer_group('n', checker => 'function', checker_target => 'no_such_f')", "MQ001", "checker_target"),
    case("create_producer_group('n', checker => 'ledger', checker_target => 'x')", "MQ001", "checker_target"),
    case("create_producer_group('pg', max_checks => 3)", "MQ011", "pg"),
    case("alter_producer_group('nosuch', max_checks => 3)", "MQ004", "nosuch"),
    case("alter_producer_group('pg', max_checks => 0)", "MQ001", "max_checks"),
    case("drop_producer_group('nosuch')", "MQ004", "nosuch"),
    case("drop_producer_group('pg')", "MQ018", "pg"),
]

TRANSACT_CASES = [
    case("prepare('nosuch', '1', 'pg')", "MQ003", "nosuch"),
    case("prepare('t', 'not json', 'pg')", "22P02", "json"),
    case(f"prepare('t', {BIG}, 'pg')", "MQ010", "payload"),
    case(f"prepare('t', '1', 'pg', headers => {BIG}::jsonb)", "MQ010", "headers"),
    case(f"prepare_batch('t', array['1'], 'pg', headers => array[{BIG}::jsonb])", "MQ010", "headers"),
    case("prepare('t', '1', 'nosuch')", "MQ004", "nosuch"),
    case("prepare('t', '1', 'no such')", "MQ002", "producer_group"),
    case("prepare('t', '1', 'pg', check_after => '0')", "MQ001", "check_after"),
    case("prepare('t', '1', 'pg', delay => '-1 s')", "MQ001", "delay"),
    case("prepare('t', '1', 'pg', key => repeat('k', 5000))", "MQ001", "key"),
    case("prepare_batch('t', array['1', null], 'pg')", "MQ001", "payloads"),
    case("prepare_batch('t', array['1'], 'nosuch')", "MQ004", "nosuch"),
    case("prepare_batch('t', array['1', '2'], 'pg', keys => array['a'])", "MQ001", "keys"),
    case("prepare_batch('t', array['1', '2'], 'pg', tags => array['a'])", "MQ001", "tags"),
    case("prepare_batch('t', array['1', '2'], 'pg', headers => array[null::jsonb])", "MQ001", "headers"),
    case("prepare_batch('t', array['1'], 'pg', check_after => '-1 s')", "MQ001", "check_after"),
    case("prepare_batch('t', array['1'], 'pg', delay => '-1 s')", "MQ001", "delay"),
    case("commit('{handle}', 'not json')", "22P02", "json"),
    case(f"commit('{{handle}}', {BIG})", "MQ010", "payload"),
    case("commit_batch(array[null]::text[])", "MQ001", "handles"),
    case("commit_batch(array['{handle}', null])", "MQ001", "handles"),
    case("commit_batch(array[array['{handle}', 'x']])", "MQ001", "handles"),
    case("commit_batch(array['{handle}'], array['1', '2'])", "MQ001", "payloads"),
    case("commit_batch(array['{handle}'], array['no'])", "22P02", "json"),
    case("commit_batch(array['{handle}'], array['1', '2']::jsonb[])", "MQ001", "payloads"),
    case(f"commit_batch(array['{{handle}}'], array[{BIG}])", "MQ010", "payloads"),
    case("commit_once('nosuch', array['{handle}'])", "MQ004", "nosuch"),
    case("commit_once('pg', array['{handle}', null], 'w', 1)", "MQ001", "handles"),
    case("commit_once('pg', array['{handle}', 'x'])", "MQ018", "x is unknown"),
    case("commit_once('pg', array['{handle}'], 'a b', 1)", "MQ002", "writer"),
    case("commit_once('pg', array['{handle}'], 'w')", "MQ001", "batch_no"),
    case("commit_once('pg', array['{handle}'], 'w', -1)", "MQ001", "batch_no"),
    case("commit_once('pg', array['{handle}'], batch_no => 1)", "MQ001", "batch_no"),
    case("rollback_batch(array['{handle}', null])", "MQ001", "handles"),
    case("local_begin('x')", "MQ006", "handle"),
    case("local_begin('{foreign}')", "MQ006", "handle"),
    case("due_checks('nosuch')", "MQ004", "nosuch"),
    case("due_checks('pg', max_messages => 0)", "MQ001", "max_messages"),
    case("due_checks('pg', lease => '-1 s')", "MQ001", "lease"),
    case("check_wait('x')", "MQ006", "handle"),
    case("check_wait('{foreign}')", "MQ006", "handle"),
    case("check_wait('{handle}', '-1 s')", "MQ001", "retry_after"),
    case("rearm('x')", "MQ006", "handle"),
    case("rearm('{handle}')", "MQ018", None),
    case("settle('{handle}', 'wait', 'r')", "MQ001", "verdict"),
    case("compensate(0)", "MQ001", "max_messages"),
]

CONSUME_CASES = [
    case("subscribe('n', 'nosuch')", "MQ003", "nosuch"),
    case("subscribe('n', 't', mode => 'odd')", "MQ001", "mode"),
    case("subscribe('n', 't', start => 'middle')", "MQ001", "start"),
    case("subscribe('n', 't', max_attempts => 0)", "MQ001", "max_attempts"),
    case("subscribe('n', 't', retry_delay => '-1 s')", "MQ001", "retry_delay"),
    case("subscribe('g', 't', max_attempts => 3)", "MQ011", "g"),
    case("subscribe('n', 't', mode => 'pinned', on_failure => 'block_key')", "MQ001", "on_failure"),
    *(
        case(f"subscribe('n', 't', mode => 'shared', on_failure => '{policy}')", "MQ001", "on_failure")
        for policy in ("block_key", "block_queue")
    ),
    case("alter_subscription('block', 't', mode => 'shared')", "MQ001", "on_failure"),
    case("alter_subscription('pin', 't', mode => 'shared')", "MQ001", "mode"),
    case("alter_subscription('share', 't', mode => 'pinned')", "MQ001", "mode"),
    case("alter_subscription('g', 't', mode => 'broadcast')", "MQ001", "mode"),
    case("unsubscribe('nosuch', 't')", "MQ005", "nosuch"),
    case("unsubscribe('g', 'nosuch')", "MQ003", "nosuch"),
    case("receive('g', 'nosuch')", "MQ003", "nosuch"),
    case("receive('nosuch', 't')", "MQ005", "nosuch"),
    case("receive('g', 't', max_messages => 0)", "MQ001", "max_messages"),
    case("receive('g', 't', lease => '0')", "MQ001", "lease"),
    case("receive('g', 't', lease => '101 years')", "MQ001", "lease"),
    case("receive('g', 't', queue_id => 4)", "MQ001", "queue_id"),
    case("receive('g', 't', queue_id => -2)", "MQ001", "queue_id"),
    case("receive('g', 'open', ack => 'x')", "MQ007"),
    case("receive('g', 't', ack => '{receipt}')", "MQ001", "ack"),
    case("receive('pin', 't')", "MQ001", "consumer"),
    case("receive('pin', 't', consumer => '')", "MQ002", "consumer"),
    case("receive('cast', 't')", "MQ001", "consumer"),
    case("receive('cast', 't', consumer => 'no spaces')", "MQ002", "consumer"),
    case("fetch('nosuch', 0, 0)", "MQ003", "nosuch"),
    case("fetch('t', -1, 0)", "MQ001", "queue_id"),
    case("fetch('t', 4, 0)", "MQ001", "queue_id"),
    case("fetch('t', 0, -1)", "MQ001", "from_offset"),
    case("fetch('t', 0, 99999)", "MQ013", "99999"),
    case("fetch('t', 0, 0, 0)", "MQ001", "max_messages"),
    case("fetch_batches('nosuch', 0, 0, 0)", "MQ003", "nosuch"),
    case("fetch_batches('t', 0, 0, 0, identity => 'another')", "MQ003", "another broker"),
    case("fetch_batches('t', 4, 0, 0)", "MQ001", "queue_id"),
    case("fetch_batches('t', 0, -1, 0)", "MQ001", "from_offset"),
    case("fetch_batches('t', 0, 9223372036854775807, 0)", "MQ001", "to_offset"),
    case("fetch_batches('t', 0, 1, 0)", "MQ001", "to_offset"),
    case("fetch_batches('t', 0, 0, 1000001)", "MQ001", "to_offset"),
    case("fetch_batches('t', 0, 0, 99999)", "MQ013", "99999"),
    case("fetch_range('nosuch', 0, 0, 0)", "MQ003", "nosuch"),
    case("fetch_range('t', 0, 0, 0, identity => 'another')", "MQ003", "another broker"),
    case("fetch_range('t', 4, 0, 0)", "MQ001", "queue_id"),
    case("fetch_range('t', 0, -1, 0)", "MQ001", "from_offset"),
    case("fetch_range('t', 0, 9223372036854775807, 0)", "MQ001", "to_offset"),
    case("fetch_range('t', 0, 1, 0)", "MQ001", "to_offset"),
    case("fetch_range('t', 0, 0, 1000001)", "MQ001", "to_offset"),
    case("fetch_range('t', 0, 0, 99999)", "MQ013", "99999"),
    case("topic_offsets('nosuch')", "MQ003", "nosuch"),
    case("advance('nosuch', 't', array[0], array[0])", "MQ005", "nosuch"),
    case("advance('pin', 't', array[0], array[0])", "MQ001", "exclusive"),
    case("advance('g', 't', array[0, 1], array[0])", "MQ001", "offsets"),
    case("advance('g', 't', array[0, null], array[0, 1])", "MQ001", "null"),
    case("advance('g', 't', array[array[0]], array[0])", "MQ001", "one-dimensional"),
    case("advance('g', 't', array[-1], array[0])", "MQ001", "queue_ids"),
    case("advance('g', 't', array[4], array[0])", "MQ001", "queue_ids"),
    case("advance('g', 't', array[0], array[-1])", "MQ001", "offsets"),
    case("advance('g', 't', array[0], array[99999])", "MQ013", "99999"),
    case("advance('g', 't', array[0], array[0], identity => 'another')", "MQ003", "another broker"),
    case("unpin('nosuch', 't')", "MQ005", "nosuch"),
    case("unpin('pin', 't', queue_id => 4)", "MQ001", "queue_id"),
    case("unpin('pin', 't', queue_id => -2)", "MQ001", "queue_id"),
    case("unpin('pin', 't', consumer => 'bad name!')", "MQ002", "consumer"),
    case("seek('g', 'nosuch', 'earliest')", "MQ003", "nosuch"),
    case("seek('nosuch', 't', 'earliest')", "MQ005", "nosuch"),
    case("seek('g', 't', 'earliest', consumer => 'c')", "MQ001", "broadcast"),
    *(
        case(f"{call}{text}')", "MQ001", argument)
        for call, argument in (("seek('g', 't', '", "target"), ("subscribe('new', 't', start => '", "start"))
        for text in ("", "soon", "2024-13-01", "earliest ", "1e3", "2026-01-01 00:00+99")
    ),
    *(
        case(f"{call}({arguments})", code, mention)
        for call in ("dead_letters", "redrive", "discard_dead_letters")
        for arguments, code, mention in (
            ("'g', 'nosuch'", "MQ003", "nosuch"),
            ("'nosuch', 't'", "MQ005", "nosuch"),
            ("'g', 't', max_messages => 0", "MQ001", "max_messages"),
            ("'g', 't', message_ids => array[[1], [2]]::bigint[]", "MQ001", "message_ids"),
            ("'g', 't', message_ids => array[1, null]::bigint[]", "MQ001", "message_ids"),
            ("'g', 't', filter => '$x == 1'", "MQ020", None),
            ("'g', 't', filter => '$..'", "42601", None),
        )
    ),
    case("ready('g', -1)", "MQ001", "after_tick"),
    case("ready('no such name!')", "MQ002"),
    case("append(0)", "MQ001", "max_messages"),
]

RECEIPT_CASES = [
    template
    for call, extra in (("ack", ""), ("nack", ", array[1]::bigint[]"), ("extend", ", '1 s'"), ("release", ""))
    for template in (
        case(f"{call}(''{extra})", "MQ007", "receipt"),
        case(f"{call}('nonsense'{extra})", "MQ007", "receipt"),
        case(f"{call}('1.2.3'{extra})", "MQ007", "receipt"),
        case(f"{call}('1.2.3.4.5.6'{extra})", "MQ007", "receipt"),
        case(f"{call}('-1.0.1.0.1'{extra})", "MQ007", "receipt"),
        case(f"{call}('99999999999999999999.0.1.0.1'{extra})", "MQ007", "receipt"),
        case(f"{call}('999999.0.1.0.1'{extra})", "MQ007", "receipt"),
    )
] + [
    case("ack('{receipt}', -1)", "MQ001", "through"),
    case("ack('{receipt}', 99999)", "MQ001", "through"),
    case("nack('{receipt}', array[null]::bigint[])", "MQ001", "message_ids"),
    case("nack('{receipt}', array[array[1, 2]]::bigint[])", "MQ001", "message_ids"),
    case("nack('{receipt}', array[-1])", "MQ001", "message_ids"),
    case("nack('{receipt}', array[{claimed_id}, 5])", "MQ001", "message_ids"),
    case("nack('{receipt}', array[{claimed_id}], delay => '-1 s')", "MQ001", "delay"),
    case("extend('{receipt}', '0')", "MQ001", "lease"),
]

CASES = TOPIC_CASES + PRODUCE_CASES + GROUP_CASES + TRANSACT_CASES + CONSUME_CASES + RECEIPT_CASES

COUNTED = (
    "topic",
    "producer_group",
    "subscription",
    "commit_log",
    "op_log",
    "consume_queue",
    "delayed",
    "tick",
    "cursor",
    "check_log",
    "dedup",
    "ledger",
    "held",
    "dead_letter",
    "batch_writer",
)


def counts(mq: Session) -> list[int]:
    sql = " union all ".join(f"select '{t}', count(*) from mqpg.{t}" for t in COUNTED)
    return [row[1] for row in mq.rows(sql)]


class Furnished(NamedTuple):
    mq: Session
    values: dict[str, object]


@pytest.fixture(scope="module")
def furnished(databases: Databases, template: str) -> Iterator[Furnished]:
    """One broker for all cases, with rows in the tables that matter. No case may change it."""
    with databases.lent(template) as dsn:
        broker = Broker(dsn)
        mq = broker.session()
        mq.subscribed("t", queues=4)
        mq.call("create_topic", "one", queues=1)
        mq.call("subscribe", "pin", "t", mode="pinned")
        mq.call("subscribe", "share", "t", mode="shared")
        mq.call("subscribe", "cast", "t", mode="broadcast")
        mq.call("subscribe", "block", "t", on_failure="block_key")
        mq.call("create_producer_group", "pg")
        mq.subscribed("open")
        mq.send_batch("open", ["1"] * 3)
        message_id = mq.send("t", "1")
        handle = mq.prepare("t", "1")
        mq.append()
        claimed = mq.receive("open")[0]
        foreign = ".".join(["otherbroker0", *handle.split(".")[1:]])
        values = {
            "message_id": message_id,
            "handle": handle,
            "foreign": foreign,
            "receipt": claimed.receipt,
            "claimed_id": claimed.message_id,
        }
        yield Furnished(mq, values)
        broker.close()


def call_text(case: Case, values: dict[str, object]) -> str:
    """Return the call with the module's values. Doubled braces mean single ones."""
    sql = case.sql
    for name, value in values.items():
        sql = sql.replace("{" + name + "}", str(value))
    return sql


@pytest.mark.parametrize("bad", CASES, ids=lambda c: f"{c.sql[:70]}-{c.code}")
def test_bad_argument(furnished: Furnished, bad: Case) -> None:
    mq, before = furnished.mq, counts(furnished.mq)
    sql = f"select * from mqpg.{call_text(bad, furnished.values)}"
    with refused(bad.code, bad.mention):
        mq.execute(sql)
    assert counts(mq) == before


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_outside_the_form_are_refused(furnished: Furnished, name: str) -> None:
    mq, before = furnished.mq, counts(furnished.mq)
    with refused("MQ002", "topic"):
        mq.call("create_topic", name)
    with refused("MQ002", "producer_group"):
        mq.call("create_producer_group", name)
    with refused("MQ002", "consumer_group"):
        mq.call("subscribe", name, "t")
    with refused("MQ002", "topic"):
        mq.send(name, "1")
    assert counts(mq) == before


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_are_data_and_never_identifiers(mq: Session, name: str) -> None:
    mq.subscribed(name, group=name)
    mq.call("create_producer_group", name)
    message_id = mq.send(name, "1")
    handle = mq.prepare(name, "2", name)
    mq.commit(handle)
    got = mq.delivered(name, group=name)
    assert [m.message_id for m in got] == [message_id, int(handle.split(".")[2])]
    assert {m.topic for m in got} == {name}


def test_names_are_case_sensitive(mq: Session) -> None:
    mq.call("create_topic", "T", queues=2)
    mq.sent("T", "1")
    assert mq.receive("t") == []


def test_a_refused_call_leaves_nothing_of_a_batch(mq: Session) -> None:
    big = '"' + "x" * 2_000_000 + '"'
    before = counts(mq)
    with refused("MQ010"):
        mq.send_batch("t", ["1"] * 3000 + [big])
    with refused("22P02", "json"):
        mq.send_batch("t", ["1"] * 3000 + ["{"])
    with refused("MQ010"):
        mq.call("prepare_batch", "t", ["1", big], "pg")
    assert counts(mq) == before


def test_a_compressible_payload_counts_in_full(mq: Session) -> None:
    """The limit is about the text, although a toasted argument is small on the outside."""
    mq.execute("create table kept (body text, bodies text[])")
    mq.execute("""insert into kept select b, array['1', b] from (select '"' || repeat('x', 2000000) || '"') as u(b)""")
    for expression in ("send('t', body)", "send_batch('t', bodies)", "prepare('t', body, 'pg')"):
        with refused("MQ010"):
            mq.execute(f"select mqpg.{expression} from kept")
    assert mq.scalar("select count(*) from mqpg.commit_log") == 0
