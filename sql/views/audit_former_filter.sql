-- The table former_filter for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_former_filter as
select f.subscription_id, f.filter, f.tags, f.replaced_at, f.by
from mqpg.former_filter as f;
