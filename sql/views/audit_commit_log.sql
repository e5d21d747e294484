-- The table commit_log for the audit, without keys, tags, headers and bodies. Only auditors read
-- it. The planner puts the table in place of the view, so partitions are left out and read in parts
-- as before.
-- Cost: as the table.
create view mqpg.audit_commit_log as
select
    l.batch_id,
    l.xid,
    l.born_at,
    l.topic_id,
    l.producer_group_id,
    l.incarnation,
    l.queue_id,
    l.n,
    l.kind,
    l.nonce,
    l.check_at,
    l.delay,
    l.relay
from mqpg.commit_log as l;
comment on view mqpg.audit_commit_log is 'The table commit_log for the audit, without bodies';
