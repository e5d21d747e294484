-- Where each queue and retry lane ends at the tick judged.last_tick.
select topic_id, lane, queue_id, greatest(q.tail, t.tail) as tail
from (
    select r.topic_id, r.subscription_id as lane, r.queue_id, max(r.base_offset + r.n) as tail
    from queue_row as r
    cross join judged as j
    where r.tick_id <= j.last_tick
    group by 1, 2, 3
) as q
full join judged_tail as t using (topic_id, lane, queue_id)
