-- Topics that were dropped: their ids turn up in the log until their segments go, and messages of transactions that
-- were open meanwhile are in no living topic. See the view orphans.
create table mqpg.dropped_topic (
    topic_id int primary key,
    name text not null,
    forced boolean not null,
    dropped_at timestamptz not null default clock_timestamp(),
    by text not null default session_user
);
comment on table mqpg.dropped_topic is 'Topics that were dropped';
