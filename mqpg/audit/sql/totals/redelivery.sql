-- Messages by how often they were applied, and by how many attempts were scheduled.
with side (what) as (
    values ('applied'), ('attempts')
)

select
    s.what, d.consumer_group, d.topic,
    case s.what when 'applied' then d.times_applied::int else coalesce(d.retry_attempt, 1) end as value,
    sum(d.messages)::bigint as messages
from (
    select e.consumer_group, e.topic, e.times_applied, e.retry_attempt, count(*) as messages
    from delivery as e
    where e.lane = 0
    group by 1, 2, 3, 4
) as d
cross join side as s
group by 1, 2, 3, 4
