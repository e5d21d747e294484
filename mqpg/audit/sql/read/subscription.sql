-- The subscriptions of the audited topics and groups. Nothing is delivered through a broadcast
-- group's own row, because its members have positions.
-- filtered: it has, or had, a filter or tags. refiltered: they were changed.
select
    s.subscription_id, s.consumer_group, s.topic_id, s.start,
    s.filter is not null or s.tags is not null or c.refiltered as filtered, c.refiltered
from mqpg_audit.subscription as s
cross join lateral (
    select exists (
        select from mqpg_audit.setting_change as f where f.subscription_id = s.subscription_id and f.name = 'filter'
    ) as refiltered
) as c
where not exists (select from other_topic as o where o.topic_id = s.topic_id)
    and not exists (select from other_group as g where g.consumer_group = s.consumer_group)
