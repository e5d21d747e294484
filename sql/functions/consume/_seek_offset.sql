-- The offset to which seek() moves one queue of a subscription (-1: its retry lane).
-- Locks: none. Cost: see _target_offset().
-- Errors: MQ013 (an offset out of range).
create function mqpg._seek_offset(subscription mqpg.subscription, queue_id int, target text, is_offset boolean)
returns bigint
language plpgsql as $$
declare
    v_topic_id int := (_seek_offset.subscription).topic_id;
    -- The subscription whose retry lane the queue is; 0: it is a queue of the topic.
    v_lane_of int := case _seek_offset.queue_id when -1 then (_seek_offset.subscription).subscription_id else 0 end;
    v_tail bigint;
begin
    if not _seek_offset.is_offset then
        return mqpg._target_offset(v_topic_id, _seek_offset.queue_id, v_lane_of, _seek_offset.target);
    end if;
    v_tail := mqpg._tail(v_topic_id, _seek_offset.queue_id, v_lane_of);
    if _seek_offset.target::numeric not between 0 and v_tail then
        raise exception using errcode = 'MQ013', message = format(
            'target must lie between 0 and the next offset %s of queue %s, not %s', v_tail, _seek_offset.queue_id,
            _seek_offset.target);
    end if;
    return greatest(
        _seek_offset.target::bigint, mqpg._oldest(v_topic_id, _seek_offset.queue_id, v_lane_of));
end
$$;
