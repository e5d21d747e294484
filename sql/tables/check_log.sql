-- What the compensator did about each overdue half, append-only.
-- event: asked (one check), waited (the ask before it does not count), parked, rearmed, settled.
create table mqpg.check_log (
    message_id bigint not null,
    at timestamptz not null,
    event text not null,
    by text not null,
    reason text
) partition by range (message_id);
comment on table mqpg.check_log is 'Check-back history of half messages';
create index check_log_message on mqpg.check_log (message_id, at);
