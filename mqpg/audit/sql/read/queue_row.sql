-- The consume queues of the audited topics, as stored.
-- consistent: the runs add up to n. Each has a message, and none crosses the end of its record batch. Retry
-- lanes alone count attempts.
select
    c.base_offset, c.tick_id, c.topic_id, c.subscription_id, c.n, c.queue_id, c.first_ids, c.starts, c.attempts,
    c.deliver_ids,
    coalesce(
        c.n > 0
        and (c.subscription_id > 0) = (c.queue_id < 0)
        and (c.subscription_id > 0 or c.attempts is null)
        and cardinality(c.starts) = cardinality(c.first_ids)
        and cardinality(c.starts) > 0
        and coalesce(cardinality(c.deliver_ids), cardinality(c.starts)) = cardinality(c.starts)
        and coalesce(cardinality(c.attempts), cardinality(c.starts)) = cardinality(c.starts)
        and c.starts[1] = 0
        and (
            select bool_and(coalesce(r.first < r.after_last
                and (r.first_id & 1023) + r.after_last - r.first <= 1024, false))
            from unnest(c.first_ids, c.starts, c.starts[2:] || c.n) as r (first_id, first, after_last)
        ),
        false
    ) as consistent
from mqpg_audit.queue_row as c
where exists (select from topic as t where t.topic_id = c.topic_id)
    and c.tick_id > (select case when j.reading then j.last_tick else -1 end from judged as j)
    and c.tick_id <= (select case when j.reading then 9223372036854775807 else j.last_tick end from judged as j)
