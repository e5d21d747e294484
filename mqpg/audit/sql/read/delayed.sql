-- Delayed messages and retries. due: the newest tick has reached its time.
select
    d.first_id,
    d.n::int as n,
    d.deliver_id,
    d.queue_id::int as queue_id,
    d.written_at, d.visible_at, d.topic_id, d.subscription_id,
    d.attempt::int as attempt,
    d.xid,
    coalesce(d.visible_at <= h.newest_due, false) as due,
    coalesce(pg_visible_in_snapshot(d.xid, h.newest_snapshot), false) as covered,
    h.ticks_dropped
    and d.visible_at <= h.oldest_due
    and coalesce(pg_visible_in_snapshot(d.xid, h.oldest_snapshot), true) as may_be_dropped
from mqpg.audit_delayed as d
cross join horizon as h
cross join judged as j
where not exists (select from other_topic as o where o.topic_id = d.topic_id)
    and j.reading = (
        d.first_id + d.n > j.until_id or exists (
            select from open_message as m where m.message_id >= d.first_id and m.message_id < d.first_id + d.n
        )
    )
