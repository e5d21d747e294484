-- Messages by how often they were applied, and by how many attempts were scheduled.
select c.what, c.consumer_group, c.topic, c.value, count(*) as messages
from delivery as d
cross join lateral (
    values
    ('applied', d.consumer_group, d.topic, d.times_applied::int),
    ('attempts', d.consumer_group, d.topic, coalesce(d.retry_attempt, 1))
) as c (what, consumer_group, topic, value)
where d.lane = 0
group by 1, 2, 3, 4
