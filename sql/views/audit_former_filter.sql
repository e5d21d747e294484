-- The table former_filter for the audit, as it is. Only auditors read it. The planner puts the
-- table in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_former_filter as
select
    f.subscription_id,
    f.filter,
    f.tags,
    f.replaced_at,
    f.by
from mqpg.former_filter as f;
comment on view mqpg.audit_former_filter is 'The table former_filter for the audit';
