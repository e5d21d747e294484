-- The offset that a tick gave to a message in one queue (-1: the retry lane of subscription_id);
-- null if the tick's rows were dropped.
-- Locks: none. Cost: the rows that the tick wrote for the queue.
create function mqpg._offset_in_tick(tick_id bigint, topic_id int, queue_id int, subscription_id int, message_id bigint)
returns bigint
language sql stable as $$
    select c.base_offset + u.start + _offset_in_tick.message_id - u.first_id
    from mqpg.consume_queue c
    cross join lateral unnest(c.first_ids, c.starts) with ordinality as u(first_id, start, i)
    where c.tick_id = _offset_in_tick.tick_id and c.topic_id = _offset_in_tick.topic_id
        and c.queue_id = _offset_in_tick.queue_id and c.subscription_id = _offset_in_tick.subscription_id
        and _offset_in_tick.message_id >= u.first_id
        and _offset_in_tick.message_id < u.first_id + coalesce(c.starts[u.i + 1], c.n) - u.start
    order by 1 limit 1
$$;
