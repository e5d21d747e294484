-- Half messages that expired undecided. Nobody decided them within the expire_after of their
-- producer group; the view half_expired shows them. Rows are deleted when they are older than the
-- setting `position_jump_keep`.
create table mqpg.expired_half (
    message_id bigint primary key,
    handle text not null,
    producer_group text,  -- Null: the group was dropped while prepare() was open
    topic text not null,
    prepared_at timestamptz not null,
    expired_at timestamptz not null default clock_timestamp(),
    outcome mqpg.outcome not null,  -- rolled_back, or committed where the ledger of this database had a local row
    reason text not null
);
