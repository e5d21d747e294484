-- Check-back history of half messages, append-only.
create table mqpg.check_log (
    message_id bigint not null,  -- Message id of the half
    at timestamptz not null,
    -- asked (one check) | waited (that ask does not count) | waited late (it does) | parked | rearmed | settled |
    -- expired
    event text not null,
    by text not null,  -- Who checked or decided: ledger, function <name>, due_checks, admin, expiry, …
    reason text  -- What the checker answered, why it failed, or why an administrator decided
) partition by range (message_id);
-- Without a key; publications need one for UPDATE.
alter table mqpg.check_log replica identity full;
create index check_log_message on mqpg.check_log (message_id, at);
