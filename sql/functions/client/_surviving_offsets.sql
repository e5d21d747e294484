-- How far each queue of a topic is still the one that a reader has read, who stores its offsets
-- elsewhere, such as a stream of Spark in its checkpoint: surviving is what _surviving() says.
-- Locks: none. Cost: for each queue one index lookup for each partition since that adoption.
create function mqpg._surviving_offsets(topic text, incarnation int) returns table (queue_id int, surviving bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic mqpg.topic := mqpg._require_topic(_surviving_offsets.topic, 'read');
begin
    return query
    select q.i, mqpg._surviving(v_topic.topic_id, q.i, _surviving_offsets.incarnation)
    from generate_series(0, v_topic.queues - 1) as q (i);
end
$$;
