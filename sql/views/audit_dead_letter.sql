-- The table dead_letter for the audit, as it is. Only auditors read it. The planner puts the table
-- in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_dead_letter as
select
    d.subscription_id,
    d.message_id,
    d.deliver_id,
    d.queue_id,
    d.attempts,
    d.reason,
    d.history,
    d.died_at
from mqpg.dead_letter as d;
comment on view mqpg.audit_dead_letter is 'The table dead_letter for the audit';
