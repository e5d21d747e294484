-- The consume queues of the audited topics, as stored.
select
    c.base_offset, c.tick_id, c.topic_id, c.subscription_id, c.n,
    c.queue_id::int as queue_id,
    c.first_ids, c.starts,
    c.attempts::int [] as attempts,
    c.deliver_ids
from mqpg.audit_consume_queue as c
where exists (select from topic as t where t.topic_id = c.topic_id)
    and c.tick_id > (select case when j.reading then j.last_tick else -1 end from judged as j)
    and c.tick_id <= (select case when j.reading then 9223372036854775807 else j.last_tick end from judged as j)
