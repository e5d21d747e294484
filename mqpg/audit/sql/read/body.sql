-- The stored messages: one row for each record batch, one for each open message of a judged batch,
-- and one for each message that outlived its segment.
-- covered: the newest tick's snapshot sees its transaction, so it must have an offset.
-- may_be_dropped: the oldest tick's snapshot sees its transaction, so its offset may be dropped.
-- key_hashes: a hash for each message that is equal for equal keys.
-- sizes: the number of payloads, keys, tags and headers.
-- intact: whether the contents match their checksum. Null where there is none.
-- delay: by how many seconds its commit was to be delayed.
-- decision_gone: a half message whose decision retention has dropped.
-- homeless, groupless: there is no such topic or producer group, and none was dropped.
select
    b.batch_id, b.first_id, b.n, b.xid::xid8 as xid, b.created_at as born_at, b.topic_id, b.producer_group_id,
    left(b.kind, 1) as kind,
    extract(epoch from b.delay)::float8 as delay,
    b.check_at, b.queue_id, b.relay, b.incarnation, b.ledger, b.handle_hashes, b.key_hashes, b.sizes, b.intact,
    coalesce(pg_visible_in_snapshot(b.xid::xid8, h.newest_snapshot), false) as covered,
    h.ticks_dropped and coalesce(pg_visible_in_snapshot(b.xid::xid8, h.oldest_snapshot), true) as may_be_dropped,
    b.kept and b.first_id <@ h.dropped_decisions as decision_gone,
    t.dropped_at as topic_dropped_at,
    g.created_at as group_created_at,
    t.topic_id is null and b.created_at > h.jumps_purged_before as homeless,
    g.producer_group_id is null and coalesce(b.producer_group_id not between 1 and l.newest_id, false) as groupless
from (
    select
        l.batch_id, l.first_id, l.n, l.xid, l.created_at, l.topic_id, l.producer_group_id, l.kind, l.check_at,
        l.queue_id, l.handle_hashes, l.key_hashes, l.sizes, l.intact, l.kept, l.delay, l.relay, l.incarnation,
        l.ledger
    from mqpg_audit.record_batch as l
    where not l.kept
        and l.batch_id >= (select case when j.reading then j.until_id >> 10 else 0 end from judged as j)
        and l.batch_id < (select case when j.reading then 9223372036854775807 else j.until_id >> 10 end from judged as j)
    union all
    select
        l.batch_id, o.message_id, 1, l.xid, l.created_at, l.topic_id, l.producer_group_id, l.kind, l.check_at,
        l.queue_id,
        array[l.handle_hashes[(o.message_id & 1023)::int + 1]],
        array[l.key_hashes[(o.message_id & 1023)::int + 1]],
        null::int [],
        null::boolean,
        false,
        l.delay,
        l.relay,
        l.incarnation,
        l.ledger
    from open_message as o
    join mqpg_audit.record_batch as l on l.batch_id = o.message_id >> 10 and not l.kept
    cross join judged as j
    where j.reading and (o.message_id & 1023) < l.n
    union all
    select
        e.batch_id, e.first_id, e.n, e.xid, e.created_at, e.topic_id, e.producer_group_id, e.kind, e.check_at,
        e.queue_id, e.handle_hashes, e.key_hashes, e.sizes, e.intact, e.kept, e.delay, e.relay, e.incarnation,
        e.ledger
    from mqpg_audit.record_batch as e
    cross join judged as j
    where e.kept
        and j.reading
        and (e.first_id >= j.until_id or exists (select from open_message as o where o.message_id = e.first_id))
) as b
cross join horizon as h
left join (
    select o.topic_id, max(o.dropped_at) as dropped_at from mqpg_audit.topic as o group by 1
) as t on t.topic_id = b.topic_id
left join mqpg_audit.producer_group as g on g.producer_group_id = b.producer_group_id
cross join (select max(p.newest_id) as newest_id from mqpg_audit.producer_group as p) as l
where not exists (select from other_topic as o where o.topic_id = b.topic_id)
