-- The table producer_group for the audit, without its copies of rights. Only auditors read it.
-- The planner puts the table in place of the view, so partitions are left out and read in parts as
-- before.
-- Cost: as the table.
create view mqpg.audit_producer_group as
select
    p.producer_group_id,
    p.name,
    p.check_after,
    p.max_checks,
    p.on_exhausted,
    p.checker,
    p.checker_target,
    p.checker_owner,
    p.expire_after,
    p.ledger_since,
    p.created_at
from mqpg.producer_group as p;
comment on view mqpg.audit_producer_group is 'The table producer_group for the audit';
