-- Settings that change what the rows mean, as hashes. Where one of them changes, an earlier verdict
-- no longer holds.
select 'subscription ' || s.subscription_id as name, hashtextextended(
    row(
        s.consumer_group, s.topic_id, s.consumer, s.member_of, s.mode, s.start, s.filter, s.tags, s.on_failure,
        (
            select sum(hashtextextended(f::text, 0))
            from mqpg_audit.setting_change as f
            where f.subscription_id = s.subscription_id and f.name = 'filter'
        )
    )::text, 0
) as digest
from mqpg_audit.subscription as s
union all
select 'group ' || g.subscription_id, hashtextextended(g::text, 0)
from mqpg_audit.broadcast_group as g
union all
select 'topic ' || t.topic_id, hashtextextended(row(t.topic, t.queues, t.kind)::text, 0)
from mqpg_audit.topic as t
where t.dropped_at is null
union all
select 'producer group ' || p.producer_group_id, hashtextextended(row(p.producer_group, p.checker)::text, 0)
from mqpg_audit.producer_group as p
union all
select 'journal of ' || q.subscription_id || ':' || q.queue_id, hashtextextended(q.journal, 0)
from mqpg_audit.queue_start as q
