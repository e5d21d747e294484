create trigger settings_dedup_window after update on mqpg.settings
for each row when (new.name = 'dedup_window' and new.value::interval <> old.value::interval)
execute function mqpg._renumber_dedup();
