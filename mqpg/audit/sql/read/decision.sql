-- Decisions about half messages (stage 0) and delayed messages (stage 1).
-- relayed_as: the message that delivers the commit of a half message of a relay topic.
-- deliver_id: the message that holds the final payload.
-- witnessed: what settle() and the expiry write beside their decisions is there. fenced: a rollback by a
-- checker that leaves a fence in the ledger.
select
    o.message_id, o.topic_id, o.order_no, o.stage,
    case o.decision when 'commit' then 'c' when 'rollback' then 'b' when 'due' then 'd' when 'recall' then 'r' end as op,
    o.xid::xid8 as xid,
    o.decided_at as at,
    o.due_at as visible_at,
    o.decided_by, o.relayed_as,
    o.final_id as deliver_id,
    o.queue_id,
    o.noted as witnessed,
    coalesce(o.decision = 'rollback' and o.decided_by = 'checker' and o.reason like 'ledger%', false) as fenced,
    coalesce(pg_visible_in_snapshot(o.xid::xid8, h.newest_snapshot), false) as covered,
    h.ticks_dropped and coalesce(pg_visible_in_snapshot(o.xid::xid8, h.oldest_snapshot), true) as may_be_dropped
from mqpg_audit.decision as o
cross join horizon as h
cross join judged as j
where not exists (select from other_topic as t where t.topic_id = o.topic_id)
    and j.reading = (
        o.message_id >= j.until_id or exists (select from open_message as m where m.message_id = o.message_id)
    )
