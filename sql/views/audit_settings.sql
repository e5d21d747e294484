-- The table settings for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_settings as
select s.name, s.value, s.least, s.most, s.description
from mqpg.settings as s;
