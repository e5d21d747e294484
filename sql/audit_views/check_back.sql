-- What was noted of the checks of half messages: who asked, what was answered, and what became of it.
-- A condition on message_id leaves out partitions and uses the index.
-- Cost: as the table, which has rows of half messages that were overdue or decided by hand only.
create view mqpg_audit.check_back as
select c.message_id, c.message_id >> 10 as batch_id, c.at as checked_at, c.event, c.by as checked_by, c.reason
from mqpg.check_log as c;
-- message_id: Id of the half message; the cut column
-- batch_id: message_id / 1024, to join with message
-- checked_at: When it was
-- event: asked (one check) | waited (that one does not count) | waited late (it does) | parked | rearmed | settled |
--     expired
-- checked_by: Who checked or decided: ledger, function …, due_checks, role …, expiry
-- reason: What was answered, or why it was decided or parked; null: none was given
