-- The table check_log for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_check_log as
select c.message_id, c.at, c.event, c.by, c.reason
from mqpg.check_log as c;
