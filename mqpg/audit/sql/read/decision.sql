-- Decisions about half messages (stage 0) and delayed messages (stage 1).
-- relayed_as: the message that delivers the commit of a half message of a relay topic.
-- deliver_id: the message that holds the final payload.
-- witnessed: what settle() and the expiry write beside their decisions is there.
select
    o.message_id, o.topic_id, o.order_no,
    o.stage::int as stage,
    o.op::text as op,
    o.xid, o.at,
    nullif(o.visible_at, 'infinity') as visible_at,
    o.decided_by,
    case when o.visible_at = 'infinity' then o.deliver_id end as relayed_as,
    case when o.op = 'c' and o.visible_at is distinct from 'infinity' then o.deliver_id end as deliver_id,
    o.queue_id::int as queue_id,
    o.decided_by not in ('admin', 'expiry')
    or o.stage <> 0
    or exists (
        select from mqpg.audit_check_log as c
        where c.message_id = o.message_id
            and c.event = case o.decided_by when 'admin' then 'settled' else 'expired' end
    ) as witnessed,
    coalesce(pg_visible_in_snapshot(o.xid, h.newest_snapshot), false) as covered,
    h.ticks_dropped and coalesce(pg_visible_in_snapshot(o.xid, h.oldest_snapshot), true) as may_be_dropped
from mqpg.audit_op_log as o
cross join horizon as h
cross join judged as j
where not exists (select from other_topic as t where t.topic_id = o.topic_id)
    and j.reading = (
        o.message_id >= j.until_id or exists (select from open_message as m where m.message_id = o.message_id)
    )
