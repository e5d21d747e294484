-- The table cursor for the audit, as it is. Only auditors read it. The planner puts the table
-- in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_cursor as
select
    c.version,
    c.committed,
    c.claimed,
    c.at,
    c.epoch,
    c.subscription_id,
    c.slot,
    c.queue_id,
    c.action,
    c.owner,
    c.claims,
    c.failed,
    c.reason
from mqpg.cursor as c;
comment on view mqpg.audit_cursor is 'The table cursor for the audit';
