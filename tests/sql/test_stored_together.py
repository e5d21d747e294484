"""Messages without keys that fit into one record batch are stored without being sorted and placed.

The rows are the same as those of the general way.
"""

from typing import Any

from tests.support.broker import Session
from tests.support.mutation import mutate

_ROWS = """
select n, kind::text, queue_id between 0 and 3 as queue, producer_group_id, incarnation, nonce is not null as secret,
    delay, keys, tags, array(select u.h - 'mqpg-handle' from unnest(headers) with ordinality u(h, o) order by o) as headers,
    headers is null as bare, payloads::text[] as bodies, array_lower(payloads, 1) as payloads_from,
    array_lower(tags, 1) as tags_from, array_lower(headers, 1) as headers_from, relay, checksum is not null as summed,
    (select a.intact from mqpg_audit.record_batch as a where a.batch_id = l.batch_id), check_at - born_at as due,
    (select array_agg((d.n, d.queue_id = l.queue_id, d.first_id = l.batch_id * 1024, d.xid = l.xid)::text)
     from mqpg.delayed d where d.first_id / 1024 = l.batch_id) as delayed
from mqpg.commit_log l where batch_id > %s order by batch_id"""

_TWO = "array['1', ' {\"a\": 2} ']"
CALLS = {
    "bare": f"prepare_batch('t', {_TWO}, 'pg')",
    "null keys": f"prepare_batch('t', {_TWO}, 'pg', keys => array[null, null]::text[])",
    "tags": f"prepare_batch('t', {_TWO}, 'pg', tags => array[null, 'x'])",
    "null tags and headers": f"prepare_batch('t', {_TWO}, 'pg', tags => '{{null,null}}', headers => '{{null,null}}')",
    "headers": f"prepare_batch('t', {_TWO}, 'pg', headers => array['{{\"a\": 1}}', null]::jsonb[])",
    "lower bounds": "prepare_batch('t', '[0:1]={1,2}'::text[], 'pg', tags => '[5:6]={a,b}',"
    " headers => '[-1:0]={null,\"{}\"}')",
    "delay": f"prepare_batch('t', {_TWO}, 'pg', delay => '1 h')",
    "relay": "prepare_batch('relayed', array['1', '2'], 'pg', headers => array['{\"a\": 1}', null]::jsonb[])",
    "checksums": "prepare_batch('summed', '[0:1]={1,2}'::text[], 'pg', tags => array[null, 'x'], headers => '{null,null}')",
    "delayed send": f"send_batch('t', {_TWO}, tags => array[null, 'x'], delay => '1 h')",
    "1025 messages": "prepare_batch('t', array_fill('1'::text, array[1025]), 'pg')",
    "large": "prepare_batch('t', array_fill(to_json(repeat('x', 1000))::text, array[600]), 'pg')",
}


def stored(mq: Session, call: str) -> list[Any]:
    """Make a call, and return the rows that it wrote; what they are due is compared to the second."""
    last = mq.scalar("select nextval('mqpg.batch_id')")
    mq.execute("select * from mqpg." + call.replace("%", "%%"))
    return [row._replace(due=row.due and round(row.due.total_seconds())) for row in mq.rows(_ROWS, last)]


def test_the_rows_are_those_of_the_general_way(mq: Session) -> None:
    mq.call("create_topic", "relayed", queues=4, kind="relay")
    mq.call("create_topic", "summed", queues=4)
    mq.call("alter_topic", "summed", checksums=True)
    together = {name: stored(mq, call) for name, call in CALLS.items()}
    mutate(mq, "_store", "if v_n between 1 and 1024", "if false")
    for name, call in CALLS.items():
        assert together[name] == stored(mq, call), name
    assert len(together["lower bounds"]) == 1
    assert len(together["1025 messages"]) == 2
    assert together["lower bounds"][0].tags == ["a", "b"]


def test_an_array_that_was_compressed_on_disk_is_measured_as_it_is(mq: Session) -> None:
    mq.execute(
        "create table public.stash as select array_fill(to_json(repeat('x', 2000))::text, array[1000]) as bodies"
    )
    assert mq.scalar("select pg_column_size(bodies) from public.stash") < 262144
    assert len(mq.rows("select mqpg.prepare_batch('one', bodies, 'pg') from public.stash")) == 1000
    largest = "select max((select sum(octet_length(p::text)) from unnest(payloads) as p)) from mqpg.commit_log"
    assert mq.scalar(largest) <= 262144 + 2002
