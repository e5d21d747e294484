-- The rows of journals that belong to this broker. subscription_id is null in rows of an earlier
-- release.
create temp table applied (
    consumer_group text,
    topic text,
    queue_id int,
    queue_offset bigint,
    message_id bigint,
    applied_at timestamptz,
    subscription_id int
);
