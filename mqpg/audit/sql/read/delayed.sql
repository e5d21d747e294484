-- Delayed messages and retries. due: the newest tick has reached its time.
select
    d.message_id,
    d.final_id as deliver_id,
    d.queue_id, d.written_at,
    d.due_at as visible_at,
    d.topic_id,
    coalesce(d.subscription_id, 0) as subscription_id,
    coalesce(d.attempt, 1) as attempt,
    d.xid::xid8 as xid,
    coalesce(d.due_at <= h.newest_due, false) as due,
    coalesce(pg_visible_in_snapshot(d.xid::xid8, h.newest_snapshot), false) as covered,
    h.ticks_dropped
    and d.due_at <= h.oldest_due
    and coalesce(pg_visible_in_snapshot(d.xid::xid8, h.oldest_snapshot), true) as may_be_dropped
from mqpg_audit.delayed as d
cross join horizon as h
cross join judged as j
where not exists (select from other_topic as o where o.topic_id = d.topic_id)
    and j.reading = (
        d.message_id >= j.until_id or exists (select from open_message as m where m.message_id = d.message_id)
    )
