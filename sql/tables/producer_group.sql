-- Producer groups say how halves of theirs are checked back (protocol T3).
create table mqpg.producer_group (
    producer_group_id int generated always as identity primary key,
    name text not null unique,
    check_after interval not null,
    max_checks int not null,
    on_exhausted text not null,     -- park | rollback
    checker text not null,          -- due_checks | ledger | function | url
    checker_target text,
    ledger_since bigint not null default 0, -- batch id: halves up to it were prepared under another ledger
    created_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.producer_group is 'Producer groups: when and by whom undecided half messages are checked';
