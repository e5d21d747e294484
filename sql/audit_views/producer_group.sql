-- Producer groups: when and by whom undecided half messages are checked.
-- Cost: one row for each group.
create view mqpg_audit.producer_group as
select p.producer_group_id, p.name as producer_group, p.checker, p.check_after, p.max_checks, p.on_exhausted,
    p.expire_after, p.created_at, (select s.last_value from mqpg.producer_group_producer_group_id_seq as s) as newest_id
from mqpg.producer_group as p;
-- producer_group_id: Id of the producer group
-- producer_group: Name of the producer group
-- checker: Who is asked about an undecided half message, as given to create_producer_group()
-- check_after: Time from prepare() to the first check
-- max_checks: Number of checks until on_exhausted
-- on_exhausted: What becomes of a half message after the last check
-- expire_after: An undecided half message expires after this time; null: never
-- created_at: When it was created
-- newest_id: The greatest producer_group_id that any group has, or had
