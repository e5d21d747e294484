-- The table dead_letter for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_dead_letter as
select d.subscription_id, d.message_id, d.deliver_id, d.queue_id, d.attempts, d.reason, d.history, d.died_at
from mqpg.dead_letter as d;
