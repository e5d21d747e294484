-- The table delayed for the audit, as it is. Only auditors read it. The planner puts the table
-- in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_delayed as
select
    d.visible_at,
    d.xid,
    d.first_id,
    d.deliver_id,
    d.written_at,
    d.topic_id,
    d.subscription_id,
    d.queue_id,
    d.n,
    d.attempt,
    d.reason,
    d.consumer
from mqpg.delayed as d;
comment on view mqpg.audit_delayed is 'The table delayed for the audit';
