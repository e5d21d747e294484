-- Messages by how often they were applied, and by how many attempts were scheduled.
select c.what, d.consumer_group, d.topic, c.value, sum(d.messages)::bigint as messages
from (
    select e.consumer_group, e.topic, e.times_applied, e.retry_attempt, count(*) as messages
    from delivery as e
    where e.lane = 0
    group by 1, 2, 3, 4
) as d
cross join lateral (
    select 'applied' as what, d.times_applied::int as value
    union all
    select 'attempts', coalesce(d.retry_attempt, 1)
) as c
group by 1, 2, 3, 4
