-- The table producer_group for the audit, without its copies of rights. Only auditors read it; see
-- audit_commit_log.
create view mqpg.audit_producer_group as
select p.producer_group_id, p.name, p.check_after, p.max_checks, p.on_exhausted, p.checker, p.checker_target,
    p.checker_owner, p.expire_after, p.ledger_since, p.created_at,
    p.max_undecided, p.overfull_at
from mqpg.producer_group as p;
