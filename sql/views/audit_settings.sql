-- The table settings for the audit, as it is. Only auditors read it. The planner puts the table
-- in place of the view.
-- Cost: as the table.
create view mqpg.audit_settings as
select
    s.name,
    s.value,
    s.least,
    s.most,
    s.description
from mqpg.settings as s;
comment on view mqpg.audit_settings is 'The table settings for the audit';
