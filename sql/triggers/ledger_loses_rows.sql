-- Notes that rows of the broker's own ledger were deleted by anything but keep(), or all of them.
-- It fires also in a session that switches triggers off, because half messages would be rolled back
-- whose local transactions have committed.
-- Cost: negligible.
create trigger ledger_loses_rows after delete or truncate on mqpg.ledger
for each statement execute function mqpg._note_lost_rows();
alter table mqpg.ledger enable always trigger ledger_loses_rows;
