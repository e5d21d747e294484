-- The audited topics.
-- summed_from: record batches that were stored after this time must have a checksum. Null: none must.
-- A transaction may still use a replaced setting for an hour, unless the topic had no message before.
-- longest: the longest retention that it ever had, in seconds. No call may ask for a longer time. Null: not
-- known.
select
    t.topic_id, t.topic, t.queues, t.first_queues, t.grown_from, t.settled_batch, t.created_at, t.grew_so,
    t.kind = 'relay' as relays,
    case
        when not t.checksums then null
        when f.since is null then '-infinity'
        when o.unused then f.since
        else f.since + interval '1 hour'
    end as summed_from,
    case when r.known then extract(epoch from greatest(t.retention, r.longest))::float8 end as longest
from mqpg_audit.topic as t
left join (
    select s.topic_id, max(s.replaced_at) as since
    from mqpg_audit.setting_change as s
    where s.name = 'checksums'
    group by 1
) as f on f.topic_id = t.topic_id
cross join lateral (
    select
        coalesce(bool_and(s.value <> 'unknown'), true) as known,
        max(case when s.value <> 'unknown' then s.value::interval end) as longest
    from mqpg_audit.setting_change as s
    where s.topic_id = t.topic_id and s.name = 'retention'
) as r
left join lateral (
    select bool_and(coalesce(l.created_at > f.since, false)) as unused
    from mqpg_audit.queue_row as c
    left join mqpg_audit.record_batch as l on l.batch_id = c.first_ids[1] >> 10 and not l.kept
    where c.topic_id = t.topic_id and c.subscription_id = 0 and c.base_offset = 0
) as o on t.checksums and f.since is not null
where t.dropped_at is null and not exists (select from other_topic as o where o.topic_id = t.topic_id)
