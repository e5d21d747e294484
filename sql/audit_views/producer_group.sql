-- Producer groups: when and by whom undecided half messages are checked.
-- Cost: one row for each group.
create view mqpg_audit.producer_group as
select p.producer_group_id, p.name as producer_group, p.checker, p.check_after, p.max_checks, p.on_exhausted,
    p.expire_after, p.created_at
from mqpg.producer_group as p;
comment on column mqpg_audit.producer_group.producer_group_id is 'Id of the producer group';
comment on column mqpg_audit.producer_group.producer_group is 'Name of the producer group';
comment on column mqpg_audit.producer_group.checker is
    'Who is asked about an undecided half message, as given to create_producer_group()';
comment on column mqpg_audit.producer_group.check_after is 'Time from prepare() to the first check';
comment on column mqpg_audit.producer_group.max_checks is 'Number of checks until on_exhausted';
comment on column mqpg_audit.producer_group.on_exhausted is 'What becomes of a half message after the last check';
comment on column mqpg_audit.producer_group.expire_after is
    'An undecided half message expires after this time; null: never';
comment on column mqpg_audit.producer_group.created_at is 'When it was created';
