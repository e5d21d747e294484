-- The message at each offset that the queues and retry lanes still hold.
select
    q.topic_id, q.subscription_id as lane, q.queue_id, q.tick_id, q.attempt,
    q.base_offset + q.first + i.i as queue_offset,
    q.first_id + i.i as message_id
from queue_run as q
cross join lateral generate_series(0, q.after_last - q.first - 1) as i (i)
where q.first_id is not null
