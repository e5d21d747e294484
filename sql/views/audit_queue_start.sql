-- The table queue_start for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_queue_start as
select s.subscription_id, s.queue_id, s.start_offset, s.journal
from mqpg.queue_start as s;
