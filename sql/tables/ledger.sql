-- The producer's ledger when its business tables live in this database: one row per local transaction,
-- written first in it. entry 'fence' is the check-back's: under the same key, so one of the two loses.
create table mqpg.ledger (
    handle text primary key,
    entry text not null default 'local' check (entry in ('local', 'fence')),
    at timestamptz not null default clock_timestamp()
);
comment on table mqpg.ledger is 'Handles of local transactions in this database, and the fences of check-backs';
