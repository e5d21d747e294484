-- The offset that the next message of a queue gets. Before keep() drops the last rows of a queue it
-- notes the tail in queue_tail, so that a tail never moves back.
-- It is plpgsql, not sql, so that its plans are kept.
-- Locks: none. Cost: one index lookup for each partition.
create function mqpg._tail(topic_id int, queue_id int, subscription_id int) returns bigint
language plpgsql stable as $$
declare
    v_tail bigint;
begin
    select c.base_offset + c.n into v_tail
    from mqpg.consume_queue c
    where c.topic_id = _tail.topic_id and c.queue_id = _tail.queue_id and c.subscription_id = _tail.subscription_id
    order by c.base_offset desc limit 1;
    if not found then
        select q.next_offset into v_tail
        from mqpg.queue_tail q
        where q.topic_id = _tail.topic_id and q.queue_id = _tail.queue_id
            and q.subscription_id = _tail.subscription_id;
    end if;
    return coalesce(v_tail, 0);
end
$$;
comment on function mqpg._tail(int, int, int) is 'Internal: next offset of a queue';
