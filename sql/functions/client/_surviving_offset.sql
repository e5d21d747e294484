-- How far a queue is still the one that a consumer has read, who stores its offset in its own
-- database: surviving is what _surviving() says. next_offset is the queue's next offset now.
-- Locks: none. Cost: one index lookup for each partition since that adoption.
create function mqpg._surviving_offset(
    consumer_group text, topic text, queue_id int, incarnation int, out surviving bigint, out next_offset bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic_id int := (mqpg._require_subscription(_surviving_offset.consumer_group, _surviving_offset.topic)).topic_id;
begin
    _surviving_offset.next_offset := mqpg._tail(v_topic_id, _surviving_offset.queue_id, 0);
    _surviving_offset.surviving := mqpg._surviving(
        v_topic_id, _surviving_offset.queue_id, _surviving_offset.incarnation);
end
$$;
