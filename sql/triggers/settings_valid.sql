create trigger settings_valid before insert or update on mqpg.settings
for each row execute function mqpg._require_setting();
