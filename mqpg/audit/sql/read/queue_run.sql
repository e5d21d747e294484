-- The runs of the rows in queue_row: messages whose ids follow one another. A run that does not add
-- up has after_last below first, or no id. In order, for whatever is sorted by offsets later.
select
    q.topic_id, q.subscription_id, q.queue_id, q.tick_id, q.base_offset,
    r.first_id, r.first, r.after_last, r.deliver_id,
    case when q.attempts is null then 1 else r.attempt end as attempt
from queue_row as q
cross join lateral unnest(q.first_ids, q.starts, q.starts[2:] || q.n, q.attempts, q.deliver_ids)
    as r (first_id, first, after_last, attempt, deliver_id)
order by q.topic_id, q.subscription_id, q.queue_id, q.base_offset, r.first
