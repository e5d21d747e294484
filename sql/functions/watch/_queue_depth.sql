-- What each queue of one topic, or of all (null), holds: the messages at the offsets from
-- oldest_offset to next_offset - 1.
-- Locks: none. Cost: two index lookups per partition for each queue.
create function mqpg._queue_depth(only_topic text) returns table (
    topic text, queue_id int, oldest_offset bigint, next_offset bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select t.name, q.queue_id, mqpg._oldest(t.topic_id, q.queue_id, 0), mqpg._tail(t.topic_id, q.queue_id, 0)
    from mqpg.topic as t
    cross join lateral generate_series(0, t.queues - 1) as q (queue_id)
    where t.name = _queue_depth.only_topic;
end
$$;
