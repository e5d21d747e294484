-- The offset that a position names on one queue: earliest (the oldest that is left), latest (the next one), or a
-- time: the first message that became visible then or later; a time to come is latest.
-- Locks: none. Cost: one index lookup a partition; for a time see _offset_at().
create function mqpg._position(topic_id int, queue_id int, subscription_id int, target text) returns bigint
language plpgsql stable as $$
begin
    return case _position.target
        when 'earliest' then mqpg._oldest(_position.topic_id, _position.queue_id, _position.subscription_id)
        when 'latest' then mqpg._tail(_position.topic_id, _position.queue_id, _position.subscription_id)
        else mqpg._offset_at(_position.topic_id, _position.queue_id, _position.subscription_id,
            _position.target::timestamptz)
    end;
end
$$;
comment on function mqpg._position(int, int, int, text) is 'Internal: offset that a position names';
