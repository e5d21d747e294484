-- The settings of the broker.
-- Cost: one row for each setting.
create view mqpg_audit.setting as
select s.name, s.value, s.least, s.most, s.description
from mqpg.settings as s;
-- name: Name of the setting
-- value: Its value
-- least: The least value that it may have
-- most: The greatest value that it may have
-- description: What it does
