-- The table tick for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_tick as
select t.tick_id, t.xid, t.snapshot, t.snapshot_xmax, t.batch_seq, t.floor_id, t.due_until, t.messages, t.topic_ids,
    t.at
from mqpg.tick as t;
