-- The first offset of a queue that became visible at or after a time; the next offset if there is
-- none. It bisects the ticks and then the queue's rows, whose ticks ascend with the offsets, so it
-- does not read the commit log.
-- Locks: none. Cost: about 30 index lookups for the tick, and log2(messages) for the queue.
create function mqpg._offset_at_time(topic_id int, queue_id int, subscription_id int, at timestamptz) returns bigint
language plpgsql stable as $$
declare
    v_tick_id bigint := mqpg._tick_at_time(_offset_at_time.at);
    v_low bigint := mqpg._oldest(_offset_at_time.topic_id, _offset_at_time.queue_id, _offset_at_time.subscription_id);
    v_high bigint := mqpg._tail(_offset_at_time.topic_id, _offset_at_time.queue_id, _offset_at_time.subscription_id);
    v_middle bigint;
    v_row record;
begin
    while v_low < v_high loop
        v_middle := v_low + (v_high - v_low) / 2;
        select c.base_offset, c.n, c.tick_id into v_row from mqpg.consume_queue c
        where c.topic_id = _offset_at_time.topic_id and c.queue_id = _offset_at_time.queue_id
            and c.subscription_id = _offset_at_time.subscription_id and c.base_offset + c.n > v_middle
            and c.base_offset > v_middle - 4096     -- the greatest length of a row
        order by c.base_offset limit 1;
        if v_row.tick_id >= v_tick_id then
            v_high := greatest(least(v_middle, v_row.base_offset), v_low);
        else
            v_low := v_row.base_offset + v_row.n;
        end if;
    end loop;
    return v_low;
end
$$;
