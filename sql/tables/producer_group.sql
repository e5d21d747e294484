-- Producer groups: when and by whom undecided half messages are checked. See protocol T3.
create table mqpg.producer_group (
    producer_group_id int generated always as identity primary key,
    name text not null unique,
    check_after interval not null,
    max_checks int not null,
    on_exhausted text not null,
    checker text not null,
    checker_target text,
    checker_owner text,
    expire_after interval,
    ledger_since bigint not null default 0,
    created_at timestamptz not null default clock_timestamp(),
    producers mqpg.grantee [] not null default '{}',
    max_undecided int not null default 100000,
    overfull_at timestamptz
);
comment on column mqpg.producer_group.check_after is 'How long after prepare() an undecided half is overdue';
comment on column mqpg.producer_group.max_checks is 'Checks without an answer until on_exhausted applies';
comment on column mqpg.producer_group.on_exhausted is 'park | rollback';
comment on column mqpg.producer_group.checker is 'due_checks | ledger | function | url';
comment on column mqpg.producer_group.checker_target is
    'Checker function: its name; checker url: a name in the compensator''s configuration';
comment on column mqpg.producer_group.checker_owner is
    'Checker function: the role that owned it when it was named, whose rights it runs with';
comment on column mqpg.producer_group.expire_after is
    'How long a half may stay undecided before it is rolled back, or parked where that needs a fence; null: for ever';
comment on column mqpg.producer_group.ledger_since is
    'Half messages with a batch id up to this were prepared under another ledger and are parked';
comment on column mqpg.producer_group.producers is
    'Roles that may prepare and decide; a copy of role_right for the hot path';
comment on column mqpg.producer_group.max_undecided is
    'How many undecided half messages the group may have before prepare() raises MQ026';
comment on column mqpg.producer_group.overfull_at is
    'When the last count found more than max_undecided half messages undecided; null: it did not';
