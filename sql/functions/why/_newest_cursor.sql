-- The newest version of a cursor, as a pure read: also the closing row of a slot, which holds the
-- whole state.
-- Locks: none. Cost: one index lookup for each slot.
create function mqpg._newest_cursor(subscription_id int, queue_id int) returns mqpg.cursor
language plpgsql stable as $$
declare
    v_cursor mqpg.cursor;
begin
    select c.* into v_cursor from mqpg.cursor c
    where c.subscription_id = _newest_cursor.subscription_id and c.queue_id = _newest_cursor.queue_id
    order by c.version desc limit 1;
    return v_cursor;
end
$$;
