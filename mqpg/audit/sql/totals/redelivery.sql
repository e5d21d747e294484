-- Messages by how often they were applied, and by how many attempts were scheduled.
select c.what, d.consumer_group, d.topic, c.value, count(*) as messages
from delivery as d
cross join lateral (
    select 'applied' as what, d.times_applied::int as value
    union all
    select 'attempts', coalesce(d.retry_attempt, 1)
) as c
where d.lane = 0
group by 1, 2, 3, 4
