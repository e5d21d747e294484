-- Every row of a subscription on the audited topics. reads: messages are delivered through it,
-- which is not so for a broadcast group's own row. apart: a member that names no group of its own, or no member that
-- names one. purged: a purge noted that it set retries_from.
-- single_from: from then on one consumer at a time reads a queue. Null: several may. failures_from: from
-- then on on_failure holds. A transaction may still use a replaced setting for an hour.
select
    s.subscription_id, s.topic_id, t.topic, s.consumer_group, s.mode, s.on_failure,
    coalesce(s.retries_from, '-infinity') as retries_from,
    s.reads, s.created_at, s.apart,
    s.retries_from is null or exists (
        select from mqpg_audit.setting_change as f
        where f.subscription_id = s.subscription_id and f.name = 'retries_from' and f.replaced_at = s.retries_from
    ) as purged,
    case when s.mode in ('exclusive', 'broadcast') then coalesce(n.mode_from, '-infinity') end as single_from,
    coalesce(n.failures_from, '-infinity') as failures_from
from (
    select
        r.subscription_id, r.topic_id, r.consumer_group, r.mode, r.on_failure, r.retries_from, r.created_at,
        true as reads,
        r.member_of is distinct from (
            select g.subscription_id from mqpg_audit.broadcast_group as g
            where g.consumer_group = r.consumer_group and g.topic_id = r.topic_id
        ) as apart
    from mqpg_audit.subscription as r
    union all
    select
        g.subscription_id, g.topic_id, g.consumer_group, 'broadcast', g.on_failure, g.retries_from, g.created_at,
        false,
        false
    from mqpg_audit.broadcast_group as g
) as s
left join topic as t on t.topic_id = s.topic_id
cross join lateral (
    select
        max(f.replaced_at) filter (where f.name = 'mode') + interval '1 hour' as mode_from,
        max(f.replaced_at) filter (where f.name = 'on_failure') + interval '1 hour' as failures_from
    from mqpg_audit.setting_change as f
    where f.subscription_id = s.subscription_id
) as n
where not exists (select from other_topic as o where o.topic_id = s.topic_id)
    and not exists (select from other_group as g where g.consumer_group = s.consumer_group)
