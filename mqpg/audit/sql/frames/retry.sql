-- The messages that each subscription nacked, with the highest attempt that was scheduled. A
-- message that a group deferred in its own database counts too, because the group nacks it only
-- after its local transaction.
select r.subscription_id, r.message_id, max(r.attempt) as attempt
from (
    select d.subscription_id, d.first_id + i.i as message_id, d.attempt
    from delayed as d
    cross join lateral generate_series(0, d.n - 1) as i (i)
    where d.subscription_id > 0
    union all
    select e.lane, e.message_id, e.attempt
    from entry as e
    where e.lane > 0
    union all
    select s.subscription_id, f.message_id, 1
    from deferred as f
    join topic as t on t.topic = f.topic
    join subscription as s on s.topic_id = t.topic_id and s.consumer_group = f.consumer_group
) as r
group by 1, 2
