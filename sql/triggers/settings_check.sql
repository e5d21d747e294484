create trigger settings_check before insert or update on mqpg.settings
for each row execute function mqpg._check_setting();
