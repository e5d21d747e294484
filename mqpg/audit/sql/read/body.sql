-- The stored messages: one row for each record batch, one for each open message of a judged batch,
-- and one for each message that outlived its segment.
-- covered: the newest tick's snapshot sees its transaction, so it must have an offset.
-- may_be_dropped: the oldest tick's snapshot sees its transaction, so its offset may be dropped.
-- key_hashes: a hash for each message that is equal for equal keys.
-- sizes: the number of payloads, keys, tags and headers.
-- intact: whether the contents match their checksum. Null where there is none.
-- decision_gone: a half message whose decision retention has dropped.
select
    b.batch_id, b.first_id, b.n, b.xid, b.born_at, b.topic_id, b.producer_group_id, b.kind, b.check_at,
    b.queue_id, b.handle_hashes, b.key_hashes, b.sizes, b.intact,
    coalesce(pg_visible_in_snapshot(b.xid, h.newest_snapshot), false) as covered,
    h.ticks_dropped and coalesce(pg_visible_in_snapshot(b.xid, h.oldest_snapshot), true) as may_be_dropped,
    b.survivor and b.first_id <@ h.dropped_decisions as decision_gone
from (
    select
        l.batch_id,
        l.batch_id * 1024 as first_id,
        l.n::int as n,
        l.xid, l.born_at, l.topic_id, l.producer_group_id,
        l.kind::text as kind,
        l.check_at,
        l.queue_id::int as queue_id,
        l.handle_hashes, l.key_hashes, l.sizes, l.intact, false as survivor
    from mqpg.audit_commit_log as l
    where l.batch_id >= (select case when j.reading then j.until_id >> 10 else 0 end from judged as j)
        and l.batch_id < (select case when j.reading then 9223372036854775807 else j.until_id >> 10 end from judged as j)
    union all
    select
        l.batch_id, o.message_id, 1, l.xid, l.born_at, l.topic_id, l.producer_group_id,
        l.kind::text,
        l.check_at,
        l.queue_id::int,
        array[l.handle_hashes[(o.message_id & 1023)::int + 1]],
        array[l.key_hashes[(o.message_id & 1023)::int + 1]],
        null::int [],
        null::boolean,
        false
    from open_message as o
    join mqpg.audit_commit_log as l on l.batch_id = o.message_id >> 10
    cross join judged as j
    where j.reading and (o.message_id & 1023) < l.n
    union all
    select
        e.message_id >> 10, e.message_id, 1, e.xid, e.born_at, e.topic_id, e.producer_group_id,
        e.kind::text,
        e.check_at,
        e.queue_id::int,
        array[e.handle_hash],
        array[e.key_hash],
        null::int [],
        null::boolean,
        true
    from mqpg.audit_held as e
    cross join judged as j
    where not exists (select from mqpg.audit_commit_log as c where c.batch_id = e.message_id >> 10)
        and j.reading
        and (e.message_id >= j.until_id or exists (select from open_message as o where o.message_id = e.message_id))
) as b
cross join horizon as h
where not exists (select from other_topic as o where o.topic_id = b.topic_id)
