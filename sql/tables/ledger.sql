-- Handles of local transactions in this database, and the fences of check-backs. For producers
-- whose business tables are in this database: each local transaction writes its row first. A
-- check-back inserts a fence under the same key, so that only one of the two can succeed.
create table mqpg.ledger (
    handle text primary key,
    -- local: the local transaction committed | fence: a check-back came first, so it can no longer commit
    entry text not null default 'local' check (entry in ('local', 'fence')),
    at timestamptz not null default clock_timestamp()
);
