-- The newest version of a cursor, as a pure read: also the closing row of a slot, which holds the
-- whole state. No row if there is none. In FROM it is inlined.
-- Locks: none. Cost: one index lookup for each slot.
create function mqpg._newest_cursor(subscription_id int, queue_id int) returns setof mqpg.cursor
language sql stable as $$
    select c.* from mqpg.cursor c
    where c.subscription_id = _newest_cursor.subscription_id and c.queue_id = _newest_cursor.queue_id
    order by c.version desc limit 1
$$;
