-- The first offset of a queue that was given after the adoption that ended an incarnation; null if
-- none has ended it. A promotion or a restore cuts the end of a queue off, and gives its offsets
-- again, so that every smaller offset has the message that it had then.
-- Locks: none. Cost: one index lookup for each partition since that adoption.
create function mqpg._surviving(topic_id int, queue_id int, incarnation int) returns bigint
language plpgsql stable as $$
declare
    v_tick_id bigint;
begin
    select b.adoption_ticks[cardinality(b.adoption_ticks) - b.incarnation + _surviving.incarnation + 1]
    into v_tick_id
    from mqpg.broker b where b.incarnation > _surviving.incarnation;
    return case when v_tick_id is not null then coalesce((
        select c.base_offset from mqpg.consume_queue c
        where c.topic_id = _surviving.topic_id and c.queue_id = _surviving.queue_id and c.subscription_id = 0
            and c.tick_id > v_tick_id
        order by c.base_offset limit 1
    ), mqpg._tail(_surviving.topic_id, _surviving.queue_id, 0)) end;
end
$$;
