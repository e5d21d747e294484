-- Says which offsets each queue of a topic has, for readers that store their offsets elsewhere, such
-- as a stream of Spark.
-- Arguments:
--   topic: name of the topic.
--   at: a time; null (default): offset_at is null.
--   consumer_group: a group of another mode than broadcast; null (default): committed is null.
-- Returns: one row for each queue. identity: names this topic in this broker, and a topic that is
-- created again under the name has another one; oldest_offset: the first that can be read;
-- next_offset: the one that the next message gets; offset_at: of the first message that became
-- visible at that time or later, next_offset if there is none; committed: the group has acknowledged
-- all messages before it.
-- Locks: none.
-- Cost: a few index lookups for each queue; with `at` some 30 more.
-- Errors: MQ001 (a broadcast group), MQ003 (unknown topic), MQ005 (unknown subscription).
create function mqpg.topic_offsets(
    topic text, at timestamptz default null, consumer_group text default null
) returns table (
    identity text, queue_id int, oldest_offset bigint, next_offset bigint, offset_at bigint, committed bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic mqpg.topic := mqpg._require_topic(topic_offsets.topic, 'read');
    v_identity text := mqpg._require_identity(v_topic, null);
    v_subscription mqpg.subscription;
begin
    if topic_offsets.consumer_group is not null then
        v_subscription := mqpg._require_subscription(topic_offsets.consumer_group, topic_offsets.topic);
        if v_subscription.mode = 'broadcast' then
            raise exception using errcode = 'MQ001', message = format(
                'consumer_group must not be of mode broadcast: each consumer of %L has a position of its own',
                topic_offsets.consumer_group);
        end if;
    end if;
    return query
    select v_identity, q.i, mqpg._oldest(v_topic.topic_id, q.i, 0), mqpg._tail(v_topic.topic_id, q.i, 0),
        case when topic_offsets.at is not null
            then mqpg._offset_at_time(v_topic.topic_id, q.i, 0, topic_offsets.at) end,
        case when v_subscription.subscription_id is not null
            then (select k.committed from mqpg._newest_cursor(v_subscription.subscription_id, q.i) k) end
    from generate_series(0, v_topic.queues - 1) as q (i);
end
$$;
