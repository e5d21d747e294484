-- Between which offsets the queues and retry lanes hold messages.
select
    q.topic_id, q.subscription_id as lane, q.queue_id,
    min(q.base_offset + q.first) as low,
    max(q.base_offset + q.after_last) as high
from queue_run as q
where q.first_id is not null and q.first < q.after_last
group by 1, 2, 3
