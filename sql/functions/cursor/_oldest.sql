-- The oldest offset of a queue that can still be read; the next offset if nothing is left. It is
-- the first offset of the oldest row, unless keep() noted a later one in queue_tail because no
-- subscription needs what lies before it.
-- It is plpgsql, not sql, so that its plans are kept.
-- Locks: none. Cost: one index lookup for each partition, and one more.
-- Errors: 40001 (see _tail()).
create function mqpg._oldest(topic_id int, queue_id int, subscription_id int) returns bigint
language plpgsql stable as $$
declare
    v_oldest bigint;
begin
    select c.base_offset into v_oldest
    from mqpg.consume_queue c
    where c.topic_id = _oldest.topic_id and c.queue_id = _oldest.queue_id
        and c.subscription_id = _oldest.subscription_id
    order by c.base_offset limit 1;
    return greatest(
        coalesce(v_oldest, mqpg._tail(_oldest.topic_id, _oldest.queue_id, _oldest.subscription_id)),
        (select q.oldest_offset from mqpg.queue_tail q
         where q.topic_id = _oldest.topic_id and q.queue_id = _oldest.queue_id
            and q.subscription_id = _oldest.subscription_id));
end
$$;
