-- The table tick for the audit, as it is. Only auditors read it. The planner puts the table
-- in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_tick as
select
    t.tick_id,
    t.xid,
    t.snapshot,
    t.snapshot_xmax,
    t.batch_seq,
    t.floor_id,
    t.due_until,
    t.messages,
    t.topic_ids,
    t.at
from mqpg.tick as t;
comment on view mqpg.audit_tick is 'The table tick for the audit';
