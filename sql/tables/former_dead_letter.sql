-- Dead letters that were redriven or discarded. Append-only, so that trace() and the audit still
-- know them. keep() deletes rows that are older than the setting `position_jump_keep`.
create table mqpg.former_dead_letter (
    subscription_id int not null,
    message_id bigint not null,
    attempts int not null,
    reason text,
    history jsonb,
    died_at timestamptz not null,  -- When it became a dead letter
    left_at timestamptz not null default clock_timestamp(),  -- When it was redriven or discarded
    fate text not null check (fate in ('redriven', 'discarded')),  -- redriven | discarded
    by text not null default session_user
);
-- Without a key; publications need one for DELETE.
alter table mqpg.former_dead_letter replica identity full;
create index former_dead_letter_message on mqpg.former_dead_letter (message_id);
