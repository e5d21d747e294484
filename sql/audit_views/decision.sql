-- Decisions about half messages and delayed messages; the first one stands. So a message has at
-- most one of commit and rollback, and at most one of due and recall.
-- A condition on message_id leaves out partitions and uses the index.
-- Cost: as the op log.
create view mqpg_audit.decision as
select o.message_id, o.message_id >> 10 as batch_id, o.topic_id, t.name as topic,
    case o.op when 'c' then 'commit' when 'b' then 'rollback' when 'd' then 'due' when 'r' then 'recall' end
        as decision,
    o.at as decided_at, o.decided_by, o.reason, o.order_no, nullif(o.visible_at, 'infinity') as due_at,
    case when o.visible_at = 'infinity' then coalesce(o.deliver_id, o.message_id) end as relayed_as,
    case when coalesce(o.visible_at <> 'infinity', true) then o.deliver_id end as final_id,
    o.queue_id::int as queue_id, o.xid::text as xid, o.stage::int as stage,
    case o.decided_by
        when 'producer' then o.op <> 'd'
        when 'appender' then o.op = 'd'
        else coalesce(o.decided_by = 'checker' and o.reason like 'reconcile%', false) or exists (
            select from mqpg.check_log as c
            where c.message_id = o.message_id and c.event = any(case o.decided_by
                when 'admin' then array['settled']
                when 'expiry' then array['expired']
                when 'checker' then array['asked', 'parked']
            end)
        )
    end as noted
from mqpg.op_log as o
left join mqpg.topic as t on o.topic_id = t.topic_id;
-- message_id: Id of the message; the cut column
-- batch_id: message_id / 1024, to join with message
-- topic_id: Id of the topic
-- topic: Name of the topic; null: it was dropped
-- decision: Half message: commit | rollback. Delayed message: due | recall
-- decided_at: When it was decided
-- decided_by: producer | checker | admin | appender | expiry (nobody decided it in time)
-- reason: Why an administrator or a checker decided so; null: no reason was given
-- order_no: From one sequence with batch_id, so both together say what came first
-- due_at: Commit with a delay: when the message becomes visible; else null
-- relayed_as: Commit in a relay topic: id of the message that delivers it; else null
-- final_id: Commit with a final payload: id of the message that holds it; else null
-- queue_id: The queue of the topic that the message belongs to, from 0
-- xid: The transaction that decided
-- stage: 0: commit and rollback; 1: due and recall
-- noted: false: not by the producer or the appender, and the record of its check-back is missing
