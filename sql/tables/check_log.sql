-- Check-back history of half messages, append-only.
create table mqpg.check_log (
    message_id bigint not null,
    at timestamptz not null,
    event text not null,
    by text not null,
    reason text
) partition by range (message_id);
-- Without a key; publications need one for UPDATE.
alter table mqpg.check_log replica identity full;
comment on column mqpg.check_log.message_id is 'Message id of the half';
comment on column mqpg.check_log.event is
    'asked (one check) | waited (that ask does not count) | waited late (it does) | parked | rearmed | settled '
    '| expired';
comment on column mqpg.check_log.by is 'Who checked or decided: ledger, function <name>, due_checks, admin, expiry, …';
comment on column mqpg.check_log.reason is 'What the checker answered, why it failed, or why an administrator decided';
create index check_log_message on mqpg.check_log (message_id, at);
