-- The table broker for the audit, as it is. Only auditors read it. The planner puts the table
-- in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_broker as
select
    b.singleton,
    b.broker_id,
    b.incarnation,
    b.system_identifier,
    b.timeline,
    b.installed_at
from mqpg.broker as b;
comment on view mqpg.audit_broker is 'The table broker for the audit';
