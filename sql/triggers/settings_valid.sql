-- Validates a setting before it is stored: its value must lie between `least` and `most`.
-- Cost: negligible.
create trigger settings_valid before insert or update on mqpg.settings
for each row execute function mqpg._require_setting();
