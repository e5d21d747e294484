-- The table former_setting for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_former_setting as
select f.setting_id, f.topic_id, f.subscription_id, f.name, f.value, f.replaced_at, f.by
from mqpg.former_setting as f;
