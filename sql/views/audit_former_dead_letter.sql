-- The table former_dead_letter for the audit, as it is. Only auditors read it; see
-- audit_commit_log.
create view mqpg.audit_former_dead_letter as
select f.subscription_id, f.message_id, f.attempts, f.reason, f.history, f.died_at, f.left_at, f.fate, f.by
from mqpg.former_dead_letter as f;
