-- Notes that rows of the broker's own ledger were deleted by anything but keep(), or all of them.
-- Cost: negligible.
create trigger ledger_loses_rows after delete or truncate on mqpg.ledger
for each statement execute function mqpg._note_lost_rows();
