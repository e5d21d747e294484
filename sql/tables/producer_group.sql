-- Producer groups: when and by whom undecided half messages are checked. See protocol T3.
create table mqpg.producer_group (
    producer_group_id int generated always as identity primary key,
    name text not null unique,
    check_after interval not null,  -- How long after prepare() an undecided half is overdue
    max_checks int not null,  -- Checks without an answer until on_exhausted applies
    on_exhausted text not null,  -- park | rollback
    checker text not null,  -- due_checks | ledger | function | url
    checker_target text,  -- Checker function: its name; checker url: a name in the compensator's configuration
    checker_owner text,  -- Checker function: the role that owned it when it was named, whose rights it runs with
    -- How long a half may stay undecided before it is rolled back, or parked where that needs a fence; null: for ever
    expire_after interval,
    -- Half messages with a batch id up to this were prepared under another ledger and are parked
    ledger_since bigint not null default 0,
    created_at timestamptz not null default clock_timestamp(),
    -- Roles that may prepare and decide; a copy of role_right for the hot path
    producers mqpg.grantee [] not null default '{}',
    -- How many undecided half messages the group may have before prepare() raises MQ026
    max_undecided int not null default 100000,
    -- When the last count found more than max_undecided half messages undecided; null: it did not
    overfull_at timestamptz
);
