-- The table ledger for the audit, as it is. Only auditors read it. The planner puts the table
-- in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_ledger as
select
    l.handle,
    l.entry,
    l.at
from mqpg.ledger as l;
comment on view mqpg.audit_ledger is 'The table ledger for the audit';
