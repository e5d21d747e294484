-- The settings of the broker.
-- Cost: one row for each setting.
create view mqpg_audit.setting as
select s.name, s.value, s.least, s.most, s.description
from mqpg.settings as s;
comment on column mqpg_audit.setting.name is 'Name of the setting';
comment on column mqpg_audit.setting.value is 'Its value';
comment on column mqpg_audit.setting.least is 'The least value that it may have';
comment on column mqpg_audit.setting.most is 'The greatest value that it may have';
comment on column mqpg_audit.setting.description is 'What it does';
