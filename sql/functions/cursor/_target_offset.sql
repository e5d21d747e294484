-- The offset that a target means on one queue. 'earliest' is the oldest offset that can be read,
-- 'latest' the next one. A time means the first message that became visible then or later; a time
-- in the future means 'latest'.
-- Locks: none. Cost: one index lookup for each partition; for a time see _offset_at_time().
create function mqpg._target_offset(topic_id int, queue_id int, subscription_id int, target text) returns bigint
language plpgsql stable as $$
begin
    return case _target_offset.target
        when 'earliest' then
            mqpg._oldest(_target_offset.topic_id, _target_offset.queue_id, _target_offset.subscription_id)
        when 'latest' then mqpg._tail(_target_offset.topic_id, _target_offset.queue_id, _target_offset.subscription_id)
        else mqpg._offset_at_time(_target_offset.topic_id, _target_offset.queue_id, _target_offset.subscription_id,
            _target_offset.target::timestamptz)
    end;
end
$$;
