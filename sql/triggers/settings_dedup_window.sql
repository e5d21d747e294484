-- Renumbers the known dedup ids when the setting dedup_window changes, because their slots are
-- numbered in units of it.
-- Locks: the keeper's lock, and ACCESS EXCLUSIVE on dedup.
-- Cost: one row for each known dedup id, and DDL.
create trigger settings_dedup_window after update on mqpg.settings
for each row when (new.name = 'dedup_window' and new.value::interval <> old.value::interval)
execute function mqpg._renumber_dedup();
