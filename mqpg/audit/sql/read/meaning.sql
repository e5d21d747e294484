-- Settings that change what the rows mean, as hashes. Where one of them changes, an earlier verdict
-- no longer holds.
select 'subscription ' || s.subscription_id as name, hashtextextended(
    row(
        s.consumer_group, s.topic_id, s.member, s.member_of, s.mode, s.start, s.filter, s.tags, s.on_failure,
        (
            select sum(hashtextextended(f::text, 0))
            from mqpg.audit_former_filter as f
            where f.subscription_id = s.subscription_id
        )
    )::text, 0
) as digest
from mqpg.audit_subscription as s
union all
select 'topic ' || t.topic_id, hashtextextended(row(t.name, t.queues, t.kind)::text, 0)
from mqpg.audit_topic as t
union all
select 'producer group ' || p.producer_group_id, hashtextextended(row(p.name, p.checker)::text, 0)
from mqpg.audit_producer_group as p
union all
select 'journal of ' || q.subscription_id || ':' || q.queue_id, hashtextextended(q.journal::text, 0)
from mqpg.audit_queue_start as q
