-- Topics that were dropped. Their ids remain in the log until their segments are dropped. A message
-- whose transaction was open during the drop belongs to no existing topic, which the view orphans
-- shows.
create table mqpg.dropped_topic (
    topic_id int primary key,
    name text not null,
    forced boolean not null,
    dropped_at timestamptz not null default clock_timestamp(),
    by text not null default session_user
);
comment on column mqpg.dropped_topic.topic_id is 'The id that the topic had';
comment on column mqpg.dropped_topic.forced is 'Whether drop_topic() was called with force';
