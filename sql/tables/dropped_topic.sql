-- Topics that were dropped. Their ids remain in the log until their segments are dropped. A message
-- whose transaction was open during the drop belongs to no existing topic, which the view orphans
-- shows.
create table mqpg.dropped_topic (
    topic_id int primary key,  -- The id that the topic had
    name text not null,
    forced boolean not null,  -- Whether drop_topic() was called with force
    dropped_at timestamptz not null default clock_timestamp(),
    by text not null default session_user
);
